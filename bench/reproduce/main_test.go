package main

import (
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

func sample(t *testing.T, gain float64) *audit.Report {
	t.Helper()
	r := &audit.Report{Timing: map[string]float64{"total": 60}}
	sets, gains := []int{0, 1, 2}, []float64{gain, gain, gain}
	for i, name := range []string{"mislabeled", "ibis"} {
		auc, err := stats.SummarizeRate([]float64{.7 + gain*float64(i), .71 + gain*float64(i), .72 + gain*float64(i)}, sets)
		if err != nil {
			t.Fatal(err)
		}
		r.Methods = append(r.Methods, audit.Method{Name: name, AUC: auc, TPR: auc})
	}
	d, err := stats.Summarize(gains, sets)
	if err != nil {
		t.Fatal(err)
	}
	r.Paired = []audit.Paired{{Method: "ibis", Baseline: "mislabeled", AUC: d, TPR: d}}
	return r
}

func TestTable(t *testing.T) {
	r := sample(t, .125)
	var b strings.Builder
	if err := table(&b, r); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"IBIS on MNIST, paper .86 ± .02", "ibis 0.835 ± 0.010 (0.825)", "ibis less mislabeled 0.125 ± 0.000 (0.125)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	r.Paired = nil
	if err := table(&strings.Builder{}, r); err == nil {
		t.Error("nothing was compared")
	}
}
