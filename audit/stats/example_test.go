package stats_test

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

func Example() {
	s := audit.Scores{
		Value:  []float64{3, 2, 2, 1, 2, 1, 0, 0},
		Member: []bool{true, true, true, true, false, false, false, false},
	}
	auc, err := stats.AUC(s)
	if err != nil {
		fmt.Println(err)
	}
	quarter, err := stats.TPRAtFPR(s, 1, 4)
	if err != nil {
		fmt.Println(err)
	}
	fifth, err := stats.TPRAtFPR(s, 1, 5) // the three that tie at 2 do not fit
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(auc, quarter, fifth)
	// Output: 0.84375 0.75 0.25
}
