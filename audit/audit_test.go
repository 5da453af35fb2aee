package audit

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestScoresCheck(t *testing.T) {
	for name, c := range map[string]struct {
		s    Scores
		want string // part of the error, "" for none
	}{
		"good":       {Scores{[]float64{1, 2}, []bool{true, false}}, ""},
		"infinite":   {Scores{[]float64{math.Inf(1), math.Inf(-1)}, []bool{true, false}}, ""},
		"empty":      {Scores{}, "0 of 0"},
		"lengths":    {Scores{[]float64{1}, []bool{true, false}}, "1 values for 2"},
		"NaN":        {Scores{[]float64{1, math.NaN()}, []bool{true, false}}, "score 1 is NaN"},
		"all in":     {Scores{[]float64{1, 2}, []bool{true, true}}, "2 of 2"},
		"all out":    {Scores{[]float64{1, 2}, []bool{false, false}}, "0 of 2"},
		"NaN, alone": {Scores{[]float64{math.NaN()}, []bool{true}}, "NaN"},
	} {
		err := c.s.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestCanarySetIsADataset(t *testing.T) {
	var d Dataset = &CanarySet{Size: []int{2, 1}, X: []float32{1, 2, 3, 4}, Y: []int32{0, 2}, K: 3}
	var x [2]float32
	if y := d.Example(1, x[:]); y != 2 || x != [2]float32{3, 4} || d.Len() != 2 || d.Classes() != 3 || !slices.Equal(d.Shape(), []int{2, 1}) {
		t.Errorf("example 1 is %v, %d; length %d, shape %v, %d classes", x, y, d.Len(), d.Shape(), d.Classes())
	}
}

// TestReportJSON pins the names that scripts rely on.
func TestReportJSON(t *testing.T) {
	rep := Report{Schema: Schema, Methods: []Method{{Name: "random"}}, Timing: map[string]float64{"total": 1}}
	text, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"schema":"aviary/1"`, `"methods":[{"name":"random","auc":{"mean":0,"sd":null,"min":0,"values":null`,
		`"tpr_at_fpr_0.05":{"mean":0,"sd":null`, `"timing":{"total":1}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}
