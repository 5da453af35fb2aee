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
	for i, name := range []string{"mislabeled", "ibis"} {
		m := audit.Method{Name: name}
		var values []float64
		var sets []int
		for set := range 3 {
			auc := .7 + .01*float64(set) + gain*float64(i)
			m.Runs = append(m.Runs, audit.Run{Set: set, AUC: auc})
			values, sets = append(values, auc), append(sets, set)
		}
		var err error
		if m.AUC, err = stats.SummarizeRate(values, sets); err != nil {
			t.Fatal(err)
		}
		m.TPR = m.AUC
		r.Methods = append(r.Methods, m)
	}
	return r
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := table(&b, sample(t, .125)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"IBIS on MNIST, paper  .86 ± .02", "ibis                  0.835 ± 0.010 (0.825)", "ibis: 0.125 ± 0.000 (0.125)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

// TestRefuses: runs that do not pair are not compared.
func TestRefuses(t *testing.T) {
	r := sample(t, 0)
	r.Methods[1].Runs[1].Set = 7
	if err := table(&strings.Builder{}, r); err == nil || !strings.Contains(err.Error(), "run 1 is set 7") {
		t.Errorf("unlike runs: %v", err)
	}
	r.Methods = r.Methods[1:]
	if err := table(&strings.Builder{}, r); err == nil {
		t.Error("nothing to compare with")
	}
}
