package kernels

import "fmt"

// ISA is an instruction set of the CPU device.
type ISA uint8

// The instruction sets. Auto takes the best one that the machine has. AVX2 and
// AVX512 give the same bits; so does Portable where the compiler's target has a
// fused multiply-add (arm64), but not on x86-64, whose baseline rounds twice.
const (
	Auto ISA = iota
	Portable
	AVX2
	AVX512
)

func (i ISA) String() string {
	switch i {
	case Auto:
		return "auto"
	case Portable:
		return "portable"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("ISA(%d)", uint8(i))
}

// CPUOptions are the choices for [CPU]. The zero value is the usual one.
type CPUOptions struct {
	Threads int // that compute together; 0: one per CPU that the process may use
	ISA     ISA
}

const maxThreads = 1024

func (o CPUOptions) check() error {
	if o.Threads < 0 || o.Threads > maxThreads {
		return fmt.Errorf("kernels: CPU: %d threads, expected 0 (as many as there are CPUs) to %d", o.Threads, maxThreads)
	}
	if o.ISA > AVX512 {
		return fmt.Errorf("kernels: CPU: unknown instruction set %v", o.ISA)
	}
	if best := BestISA(); o.ISA != Auto && o.ISA > best {
		return fmt.Errorf("kernels: CPU: instruction set %v asked for, but this machine offers no more than %v", o.ISA, best)
	}
	return nil
}
