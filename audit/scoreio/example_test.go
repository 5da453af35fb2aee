package scoreio_test

import (
	"fmt"
	"os"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
)

func Example() {
	s := audit.Scores{Value: []float64{-0.25, -1.5}, Member: []bool{true, false}}
	if err := scoreio.WriteScoresCSV(os.Stdout, scoreio.Rows(0, 1, s)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// set,audit,canary,member,score
	// 0,1,0,1,-0.25
	// 0,1,1,0,-1.5
}
