package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
)

// A transcript is all that the cases of an operation put out, guards included.
type transcript struct{ entries []entry }

type entry struct {
	label, name string
	values      []float64
}

// add is called by every call of a case; on a nil transcript it does nothing.
func (t *transcript) add(label string, a *array, values []float64) {
	if t != nil && a.output {
		t.entries = append(t.entries, entry{label, a.name, values})
	}
}

// SameBits demands that two devices give the same bits on everything that
// Cases computes: one device with different numbers of threads, or two
// instruction sets. It says nothing about whether they are right.
func SameBits(t TB, one, other kernels.Device) {
	t.Helper()
	for _, op := range Names() {
		sameBits(t, one, other, op)
	}
}

func sameBits(t TB, one, other kernels.Device, op string) {
	t.Helper()
	var a, b transcript
	check(silent{}, one, op, &a)
	check(silent{}, other, op, &b)
	if len(a.entries) != len(b.entries) || len(a.entries) == 0 {
		t.Errorf("%s: %s made %d results and %s %d", op, one.Name(), len(a.entries), other.Name(), len(b.entries))
		return
	}
	for k, x := range a.entries {
		y := b.entries[k]
		for i := range x.values {
			if math.Float64bits(x.values[i]) != math.Float64bits(y.values[i]) {
				t.Errorf("%s: %s: %s: %v on %s is %v on %s", op, x.label, x.name,
					x.values[i], one.Name(), y.values[i], other.Name())
				return
			}
		}
	}
}

// silent drops failures: SameBits reports differences only.
type silent struct{}

func (silent) Helper()               {}
func (silent) Errorf(string, ...any) {}
