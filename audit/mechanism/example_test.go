package mechanism_test

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit/mechanism"
)

// What an audit of a 1-GDP mechanism with 500 members and 500 non-members
// must find, on average.
func Example() {
	g := mechanism.Gaussian{Mu: 1}
	fmt.Printf("AUC %.4f, TPR at 5%% FPR %.4f\n", g.AUC(500, 500).Mean, g.TPRAtFPR(500, 500, 5, 100).Mean)
	// Output: AUC 0.7602, TPR at 5% FPR 0.2640
}
