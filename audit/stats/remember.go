package stats

// Remember is an estimator that finds the bound of the same counts once: audits
// and guess rules often share them. It is not for use by several goroutines at
// once.
func Remember[D comparable](e Estimator[D]) Estimator[D] {
	return remembering[D]{e, map[question[D]]float64{}}
}

type remembering[D comparable] struct {
	Estimator[D]
	lower map[question[D]]float64
}

type question[D comparable] struct {
	counts D
	alpha  float64
}

// Lower implements Estimator.
func (r remembering[D]) Lower(counts D, alpha float64) (float64, error) {
	at := question[D]{counts, alpha}
	if eps, ok := r.lower[at]; ok {
		return eps, nil
	}
	eps, err := r.Estimator.Lower(counts, alpha)
	if err == nil {
		r.lower[at] = eps
	}
	return eps, err
}
