package ref_test

import (
	"math"
	"testing"

	"github.com/aviary-audit/aviary/kernels/ref"
)

// The known answers of philox4x32 with 10 rounds that the Random123 library
// publishes (kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, k := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := ref.Philox4x32(k.counter, k.key); got != k.want {
			t.Errorf("Philox(%x, %x) = %x, want %x", k.counter, k.key, got, k.want)
		}
	}
}

// Normal i is made of the words that its doc comment says, so that four
// neighbours share a block and the halves of index, step and seed all count.
func TestNormalsFollowTheirFormula(t *testing.T) {
	const seed, step = 0xa4093822_299f31d0, 0x00000005_00000007
	for _, i := range []uint64{0, 1, 2, 3, 4, 1<<34 + 2, 1<<36 + 7} {
		w := ref.Philox4x32([4]uint32{uint32(i / 4), uint32(i / 4 >> 32), 7, 5}, [2]uint32{0x299f31d0, 0xa4093822})
		a, b := w[0], w[1]
		if i%4 >= 2 {
			a, b = w[2], w[3]
		}
		want := math.Sqrt(-2 * math.Log((float64(a>>8)+0.5)/(1<<24)))
		if angle := 2 * math.Pi * float64(b>>8) / (1 << 24); i%2 == 0 {
			want *= math.Cos(angle)
		} else {
			want *= math.Sin(angle)
		}
		if got := ref.NormalAt(i, seed, step); !(math.Abs(got-want) <= 1e-15*8) {
			t.Errorf("normal %d is %v, want %v", i, got, want)
		}
	}
}
