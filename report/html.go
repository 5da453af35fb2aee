package report

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/aviary-audit/aviary/audit"
)

// pageView is what the page template shows.
type pageView struct {
	*audit.Report
	CSS        template.CSS
	Verdicts   []verdict
	ROC        template.HTML
	LowFPR     []lowFPRRow
	Histograms []template.HTML
	Training   []template.HTML
	Accuracy   bool // some method has a test accuracy
	Intervals  bool // some method has intervals
	Bounds     *boundsView
	Times      []stage
	Config     string
}

type lowFPRRow struct {
	Method string
	Cells  []lowFPR
}

type stage struct {
	Name    string
	Seconds float64
}

func page(r *audit.Report, methods []methodScores, roc *chart, config string) ([]byte, error) {
	v := pageView{
		Report:   r,
		CSS:      variables() + template.CSS(chartCSS+pageCSS),
		Verdicts: verdicts(r),
		Bounds:   viewBounds(r),
		Config:   strings.TrimRight(config, "\n"),
	}
	var err error
	if v.ROC, err = inlineSVG(roc, "roc"); err != nil {
		return nil, err
	}
	for i, m := range methods {
		v.LowFPR = append(v.LowFPR, lowFPRRow{m.Name, m.low})
		h, err := inlineSVG(histogram(m, i), fmt.Sprintf("scores-%d", i))
		if err != nil {
			return nil, err
		}
		v.Histograms = append(v.Histograms, h)
		v.Accuracy = v.Accuracy || m.TestAccuracy != nil
		v.Intervals = v.Intervals || m.AUC.Low != nil
	}
	for i, c := range trainingCharts(r) {
		t, err := inlineSVG(c, fmt.Sprintf("training-%d", i))
		if err != nil {
			return nil, err
		}
		v.Training = append(v.Training, t)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Timing)) {
		if name != "total" {
			v.Times = append(v.Times, stage{name, r.Timing[name]})
		}
	}
	if total, ok := r.Timing["total"]; ok {
		v.Times = append(v.Times, stage{"total", total})
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "page", v); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// interval is "low to high", or a dash where there is none.
func interval(s audit.Summary) string {
	if s.Low == nil || s.High == nil {
		return "–"
	}
	return fixed(*s.Low) + " to " + fixed(*s.High)
}
