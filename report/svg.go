package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
)

var (
	//go:embed templates/chart.svg.tmpl
	chartTemplate string
	//go:embed templates/page.html.tmpl
	pageTemplate string
	//go:embed templates/craft.html.tmpl
	craftTemplate string
	//go:embed templates/pe.html.tmpl
	peTemplate string
	//go:embed templates/page.css
	pageCSS string
	//go:embed templates/chart.css
	chartCSS string
)

var templates = parseTemplates()

func parseTemplates() *template.Template {
	t := template.New("report").Funcs(template.FuncMap{
		"fixed": fixed, "significant": significant, "spread": spread, "percent": percent,
		"capitalise": capitalise, "interval": interval,
		"signed": signed, "signedInterval": signedInterval,
		"pair": func(a, b *heatMap) []*heatMap { return []*heatMap{a, b} }, "heatRows": func() int { return heatMax },
		"one":  func(alpha float64) float64 { return 1 - alpha },
		"best": func(a PEAttack) *PECanary { return a.best() },
	})
	template.Must(t.New("chart").Parse(chartTemplate))
	template.Must(t.New("page").Parse(pageTemplate))
	template.Must(t.New("craft").Parse(craftTemplate))
	template.Must(t.New("pe").Parse(peTemplate))
	return t
}

// svgView is a chart with everything computed, for the template.
type svgView struct {
	*chart
	ID             string
	Left, Right    float64
	Top, Bottom    float64
	MidX, MidY     float64
	GridX, GridY   []gridLine
	Paths          []svgPath
	Texts          []svgText
	Keys           []svgKey
	LegendX        float64
	LegendY        float64
	LegendW        float64
	LegendH        float64
	Standalone     bool
	StandaloneText template.CSS
}

type gridLine struct {
	At    float64
	Label string
}

type svgPath struct{ Class, D string }

type svgText struct {
	X, Y float64
	Text string
}

type svgKey struct {
	Class string
	Text  string
	Y     float64
}

func (c *chart) view(id string) svgView {
	v := svgView{chart: c, ID: id, Left: marginLeft, Right: c.Width - marginRight, Top: marginTop, Bottom: c.Height - marginBottom}
	v.MidX, v.MidY = (v.Left+v.Right)/2, (v.Top+v.Bottom)/2
	for _, t := range c.X.Ticks {
		v.GridX = append(v.GridX, gridLine{round1(c.x(t.At)), t.Label})
	}
	for _, t := range c.Y.Ticks {
		v.GridY = append(v.GridY, gridLine{round1(c.y(t.At)), t.Label})
	}
	for _, m := range c.Marks {
		v.Paths = append(v.Paths, svgPath{m.class(), c.path(m.Points, m.Weight == fill)})
	}
	for _, n := range c.Notes {
		v.Texts = append(v.Texts, svgText{round1(c.x(n.At.X) + 5), round1(c.y(n.At.Y)), n.Text})
	}
	const lineHeight = 20
	longest := 0
	for _, k := range c.Legend {
		longest = max(longest, len([]rune(k.Text)))
	}
	v.LegendW, v.LegendH = 54+6.6*float64(longest), float64(len(c.Legend))*lineHeight+6
	v.LegendX, v.LegendY = v.Left+10, v.Top+6
	if c.LegendRight {
		v.LegendX = v.Right - 10 - v.LegendW
	}
	if c.LegendLow {
		v.LegendY = v.Bottom - 10 - v.LegendH
	}
	for i, k := range c.Legend {
		m := mark{Ink: k.Ink, Dashed: k.Dashed, Weight: thin}
		v.Keys = append(v.Keys, svgKey{Class: m.class(), Text: k.Text, Y: v.LegendY + 16 + float64(i)*lineHeight})
	}
	return v
}

func round1(v float64) float64 { return float64(int(v*10+0.5)) / 10 }

// class is the CSS classes of a mark; templates/chart.css gives them colours.
func (m mark) class() string {
	s := map[weight]string{hair: "hair", thin: "thin", bold: "bold", fill: "fill"}[m.Weight]
	switch m.Ink {
	case inkText:
		s += " ink"
	case inkMuted:
		s += " muted"
	default:
		s += fmt.Sprintf(" m%d", int(m.Ink)%len(palette))
	}
	if m.Dashed {
		s += " dashed"
	}
	return s
}

// inlineSVG is a chart for the page, which brings the style sheet.
func inlineSVG(c *chart, id string) (template.HTML, error) {
	return drawSVG(c.view(id))
}

// standaloneSVG is a chart as a file of its own, on a white ground and without
// CSS variables, which few viewers other than browsers know.
func standaloneSVG(c *chart) ([]byte, error) {
	v := c.view("chart")
	v.Standalone = true
	v.StandaloneText = lightCSS(chartCSS)
	svg, err := drawSVG(v)
	return []byte("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + svg), err
}

func drawSVG(v svgView) (template.HTML, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "chart", v); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return template.HTML(b.String()), nil // made by our own template, which escapes
}
