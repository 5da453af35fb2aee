package main

import (
	"errors"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/report"
)

// draw makes the plots that were asked for. Both are made before either is
// written.
func (s *boundSettings) draw(a *boundAnswer) error {
	var games []audit.Scores
	for _, g := range a.Games {
		games = append(games, g.scores)
	}
	files := map[string][]byte{}
	if s.svg != "" {
		line := report.PrivacyLine{Epsilon: -1}
		if best := bestSound(a.Bounds); best != nil {
			line = report.PrivacyLine{Epsilon: float64(best.Epsilon), Delta: best.Delta, Estimator: best.Estimator}
		}
		text, err := report.ScoresROC(games, line)
		if err != nil {
			return err
		}
		files[s.svg] = text
	}
	if s.calibration != "" {
		text, err := report.Calibration(games)
		if err != nil {
			return statsError(err)
		}
		files[s.calibration] = text
	}
	var failed []error
	for path, text := range files {
		failed = append(failed, atomicfile.WriteBytes(path, 0o644, text))
	}
	return errors.Join(failed...)
}
