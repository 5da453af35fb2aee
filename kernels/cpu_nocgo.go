//go:build !cgo

package kernels

// CPU is the float64 reference device in programs built without cgo: right, but
// slow. Threads has no effect there.
func CPU(opts CPUOptions) (Device, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	return Reference(), nil
}

// BestISA is the best instruction set that the machine offers to this program.
func BestISA() ISA { return Portable }

// CPUFeatures says in words what the CPU device would compute with.
func CPUFeatures() string { return "pure Go, float64 (built without cgo)" }
