package onerun

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// manyMethods is how many methods are compared in all pairs; more than that are
// compared with the first one only.
const manyMethods = 6

// Pair compares each method with those before it in the list, or with the first
// alone if there are more than six, audit by audit. It reads the runs' figures
// and their numbers of set and audit, which must be the same in all methods.
func Pair(methods []audit.Method) ([]audit.Paired, error) {
	var all []audit.Paired
	for i, m := range methods {
		baselines := methods[:i]
		if len(methods) > manyMethods {
			baselines = methods[:min(i, 1)]
		}
		for _, base := range baselines {
			p, err := compareMethods(m, base)
			if err != nil {
				return nil, fmt.Errorf("comparing %s with %s: %w", m.Name, base.Name, err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

func compareMethods(m, base audit.Method) (audit.Paired, error) {
	if len(m.Runs) != len(base.Runs) {
		return audit.Paired{}, fmt.Errorf("%d audits and %d, expected as many", len(m.Runs), len(base.Runs))
	}
	type number struct{ set, audit int }
	partner := map[number]audit.Run{}
	for _, r := range base.Runs {
		partner[number{r.Set, r.Audit}] = r
	}
	p := audit.Paired{Method: m.Name, Baseline: base.Name, Runs: len(m.Runs)}
	var auc, tpr []float64
	var sets []int
	for _, r := range m.Runs {
		at := number{r.Set, r.Audit}
		b, ok := partner[at]
		if !ok {
			return audit.Paired{}, fmt.Errorf("%s has no set %d audit %d that is not yet compared", base.Name, r.Set, r.Audit)
		}
		delete(partner, at)
		if r.AUC > b.AUC {
			p.WinsAUC++
		}
		if r.TPR > b.TPR {
			p.WinsTPR++
		}
		auc, tpr, sets = append(auc, r.AUC-b.AUC), append(tpr, r.TPR-b.TPR), append(sets, r.Set)
	}
	var err error
	if p.AUC, err = stats.Summarize(auc, sets); err != nil {
		return audit.Paired{}, err
	}
	if p.TPR, err = stats.Summarize(tpr, sets); err != nil {
		return audit.Paired{}, err
	}
	cut(&p.AUC, -1, 1)
	cut(&p.TPR, -1, 1)
	return p, nil
}
