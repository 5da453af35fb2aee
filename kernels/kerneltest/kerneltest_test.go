package kerneltest_test

import (
	"reflect"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/kerneltest"
)

func TestEveryOpHasACase(t *testing.T) {
	ops := reflect.TypeFor[kernels.Ops]()
	for i := range ops.NumMethod() {
		if name := ops.Method(i).Name; kerneltest.Cases[name] == nil {
			t.Errorf("kernels.Ops has %s, kerneltest.Cases does not", name)
		}
	}
	if n := ops.NumMethod(); n != len(kerneltest.Cases) {
		t.Errorf("%d cases for %d operations", len(kerneltest.Cases), n)
	}
}

// The reference passes, at once and queued, with the same bits. With -short,
// which is for the race detector, only queued.
func TestReference(t *testing.T) {
	var all []*kerneltest.Bits
	for _, open := range []func() kernels.Device{kernels.Reference, kernels.ReferenceAsync} {
		dev := open()
		if testing.Short() && dev.Name() == "ref" {
			continue
		}
		t.Run(dev.Name(), func(t *testing.T) {
			all = append(all, kerneltest.Run(t, dev))
			kerneltest.Failures(t, func() (kernels.Device, error) { return open(), nil })
		})
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, other := range all[1:] {
		all[0].Same(t, other)
	}
}
