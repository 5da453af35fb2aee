package main

import (
	"errors"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/report"
)

// plots are the files that were asked for, by path.
func (s *boundSettings) plots(a *boundAnswer) (map[string][]byte, error) {
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
			return nil, err
		}
		files[s.svg] = text
	}
	if s.calibration != "" {
		text, err := report.Calibration(games)
		if err != nil {
			return nil, statsError(err)
		}
		files[s.calibration] = text
	}
	return files, nil
}

func writePlots(files map[string][]byte) error {
	var failed []error
	for path, text := range files {
		failed = append(failed, atomicfile.WriteBytes(path, 0o644, text))
	}
	return errors.Join(failed...)
}
