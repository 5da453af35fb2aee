package main

import (
	"runtime"

	"github.com/aviary-audit/aviary/bench"
	"github.com/aviary-audit/aviary/kernels"
)

// row is one line of the table: something of ours, and what it is held against.
type row struct {
	name  string
	ours  string   // a key of works, or of programs
	peers []string // rows of the Python peers, or keys of ours; the fastest counts
	// speed: the ratio is theirs/ours (of times), to be at least target. Else it
	// is ours/theirs, to be at most target.
	speed  bool
	target float64
	// absolute: the target is a bound on our own time in seconds, whatever the
	// peers' are.
	absolute bool
	// slow: some contestant takes seconds, so that there are few rounds.
	slow bool
	// memory: the figure is the peak memory in MB, not a time, and the target an
	// absolute bound.
	memory bool
}

// The targets are those of the project's issues on speed and on accounting.
func rows() []row {
	var list []row
	for _, s := range bench.Shapes {
		target := 0.95
		if s.Narrow() {
			target = 0.85
		}
		name := "gemm/" + s.String()
		list = append(list, row{name: name, ours: name, peers: []string{name + "/numpy", name + "/torch"}, speed: true, target: target})
	}
	plain := []string{"step/plain/autograd", "step/plain/compile", "step/plain/manual"}
	hvp := []string{"hvp/double-backward", "hvp/forward-over-reverse"}
	for _, l := range bench.EmbedLoads {
		name := "embed/" + l.Name
		list = append(list,
			row{name: name + " / onnxruntime", ours: name, peers: []string{name + "/onnxruntime", name + "/onnxruntime-fused"}, speed: true, target: 1, slow: true},
			row{name: name + " / torch", ours: name, peers: []string{name + "/torch", name + "/torch-compile"}, speed: true, target: 1.1, slow: true})
	}
	return append(list,
		row{name: "plain step / torch", ours: "plain", peers: plain, target: 0.85},
		row{name: "DP step without noise / our plain step", ours: "dp", peers: []string{"plain"}, target: 1.05},
		row{name: "DP step with noise / our plain step", ours: "dp-noise", peers: []string{"plain"}, target: 1.15},
		row{name: "DP step without noise / torch", ours: "dp", peers: []string{"step/dp/manual", "step/dp/two-backward"}},
		row{name: "DP step with noise / torch", ours: "dp-noise", peers: []string{"step/dp-noise/manual", "step/dp-noise/two-backward"}},
		row{name: "gradient / torch", ours: "gradient", peers: []string{"gradient/autograd", "gradient/manual"}},
		row{name: "gradient+HVP / our gradient", ours: "gradient+hvp", peers: []string{"gradient"}, target: 2.7},
		row{name: "gradient+HVP / torch", ours: "gradient+hvp", peers: hvp, target: 0.85},
		row{name: "8 refinement steps / torch.autograd", ours: "refine", peers: []string{"refine/double-backward"}, target: 0.7},
		row{name: "8 refinement steps / torch by hand", ours: "refine", peers: []string{"refine/manual"}},
		row{name: "crafting one set / torch, without reading", ours: craft, peers: []string{"craft/manual"}, target: 0.6, slow: true},
		row{name: "one audit / torch's training alone", ours: audit, peers: []string{"train/manual", "train/autograd"}, target: 1, slow: true},
		row{name: "one audit, peak memory in MB", ours: audit, target: 600, memory: true, slow: true},
		row{name: "routing 128,000 x 8,192 x 384, k = 5 / faiss", ours: "routing", peers: []string{"routing/faiss"}, speed: true, target: 1.2, slow: true},
		row{name: "accounting-opacus-mesh / Opacus", ours: "opacus-mesh", peers: []string{"accounting/opacus-mesh"}, speed: true, target: 5},
		row{name: "accounting-tight / Opacus at error 1e-3", ours: "tight", peers: []string{"accounting/opacus-fine"}, speed: true, target: 20, slow: true},
		row{name: "calibration, tight, T = 2441", ours: "calibration", target: 1, absolute: true},
		row{name: "calibration, Opacus' / Opacus", ours: "calibration-opacus", peers: []string{"accounting/opacus-calibration"}, speed: true, slow: true},
		row{name: "clopper-pearson, 1000 bounds at n = 1e6", ours: "clopper-pearson", target: bench.Bounds / 3e5, absolute: true},
		row{name: "clopper-pearson / scipy", ours: "clopper-pearson", peers: []string{"accounting/scipy-beta"}, speed: true},
	)
}

// The whole commands, which run as processes of their own.
const (
	audit = "audit"
	craft = "craft"
)

// works make the things of ours that run in this process.
func works(dev kernels.Device, threads int) map[string]func() (*bench.Work, error) {
	m := map[string]func() (*bench.Work, error){}
	for _, s := range bench.Shapes {
		m["gemm/"+s.String()] = func() (*bench.Work, error) { return bench.GEMM(dev, s) }
	}
	for _, k := range []bench.Kind{bench.Plain, bench.DP, bench.DPNoise, bench.Gradient, bench.GradientHVP} {
		m[string(k)] = func() (*bench.Work, error) { return bench.Step(dev, k) }
	}
	for _, l := range bench.EmbedLoads {
		m["embed/"+l.Name] = func() (*bench.Work, error) { return bench.Embed(dev, l) }
	}
	m["refine"] = func() (*bench.Work, error) { return bench.Refine(dev) }
	m["routing"] = func() (*bench.Work, error) {
		w, err := bench.Routing(dev)
		if err != nil {
			return nil, err
		}
		return onThreads(w, threads), nil
	}
	for name, work := range map[string]func() *bench.Work{"opacus-mesh": bench.OpacusMesh, "tight": bench.Tight,
		"calibration": bench.Calibration, "calibration-opacus": bench.CalibrationOpacus, "clopper-pearson": bench.ClopperPearson} {
		m[name] = func() (*bench.Work, error) { return onThreads(work(), threads), nil }
	}
	return m
}

// onThreads is a work in Go, which would take every core it finds, on as many
// as are measured.
func onThreads(w *bench.Work, threads int) *bench.Work {
	run := w.Run
	w.Run = func() error {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		return run()
	}
	return w
}
