package train

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Augment says how training images are moved at random, anew in every step.
type Augment struct {
	Shift int  // by up to that many pixels each way, zeros coming in
	Flip  bool // mirrored left to right, half of the time
}

// ParseAugment reads "none", or one or more of these, joined by "+":
//
//	shift:K   moved by up to K pixels each way
//	crop:K    the same: padded by K zeros and cropped to the old size
//	flip      mirrored left to right, half of the time
//
// "" is none.
func ParseAugment(s string) (Augment, error) {
	var a Augment
	if s == "" || s == "none" {
		return a, nil
	}
	for _, word := range strings.Split(s, "+") {
		kind, arg, _ := strings.Cut(word, ":")
		switch {
		case word == "flip" && !a.Flip:
			a.Flip = true
		case (kind == "shift" || kind == "crop") && a.Shift == 0:
			k, err := strconv.Atoi(arg)
			if err != nil || k < 1 || k > 1<<15 {
				return Augment{}, fmt.Errorf("train: augment %q: %q is not a positive number of pixels", s, arg)
			}
			a.Shift = k
		default:
			return Augment{}, fmt.Errorf("train: augment is %q, expected none, or shift:K or crop:K, flip, or both joined by +", s)
		}
	}
	return a, nil
}

// None says whether images stay as they are.
func (a Augment) None() bool { return a == Augment{} }

// Draw puts one image's (dy, dx, flip) for kernels.Ops.CropFlip in move.
func (a Augment) Draw(r *rand.Rand, move []int32) {
	move[0], move[1], move[2] = 0, 0, 0
	if a.Shift > 0 {
		move[0] = int32(r.IntN(2*a.Shift+1) - a.Shift)
		move[1] = int32(r.IntN(2*a.Shift+1) - a.Shift)
	}
	if a.Flip {
		move[2] = int32(r.IntN(2))
	}
}
