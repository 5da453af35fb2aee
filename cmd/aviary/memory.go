package main

import (
	"fmt"
	"os"
)

// parameters is the number of the model's weights and biases.
func (j *job) parameters() int {
	n := 0
	for i := 1; i < len(j.arch.Sizes); i++ {
		n += (j.arch.Sizes[i-1] + 1) * j.arch.Sizes[i]
	}
	return n
}

// memory estimates the bytes of a run: all examples on the device and, as
// bytes, on the host; parameters, gradient, momentum and average; two canary
// sets; activations of a batch; and the program itself.
func (j *job) memory() int {
	const program = 40 << 20
	size, element := exampleSize(j.game.Data), j.device.ElemBits()/8
	activations := 0
	for _, width := range j.arch.Sizes {
		activations += 3 * width * j.train.Batch * element
	}
	n := j.game.Data.Len()
	if j.game.Test != nil {
		n += j.game.Test.Len()
	}
	return program + n*size*(element+1) + 4*j.parameters()*element + 2*j.game.NumCanaries*size*4 + activations
}

// checkMemory refuses a run that a machine with this many bytes cannot hold: Go
// has no way to recover from that later. 0 is a machine that does not tell.
func (j *job) checkMemory(machine int) error {
	if need := j.memory(); machine > 0 && need > machine {
		return usageError("choose a smaller --arch, --limit or --batch",
			"the audit needs about %d MB of memory, and this machine has %d MB", need>>20, machine>>20)
	}
	return nil
}

// machineMemory is the bytes of memory that the machine has, 0 if it does not
// tell.
func machineMemory() int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kB int
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kB); err != nil {
		return 0
	}
	return kB << 10
}
