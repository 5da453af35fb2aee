package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/kernels"
)

// programVersion is the version that make built in, or else what the go
// command knows.
func programVersion() string {
	if version != "unknown" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

func versionText() string {
	return fmt.Sprintf("aviary %s (%s, %s)\n", programVersion(), runtime.Version(), platform())
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

func devicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List what models can be trained on",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "cpu   %s (auto)\n", kernels.CPUFeatures())
			_, err := fmt.Fprintf(out, "ref   plain Go, float64: the definition that the others are tested against; slow\n")
			return err
		},
	}
}

// openDevice opens the device of a name. The second result names it without
// what no result depends on: see cpuName.
func openDevice(name string, threads int) (kernels.Device, string, error) {
	switch name {
	case "auto", "cpu":
		d, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
		if err != nil {
			return nil, "", inputError(err)
		}
		return d, cpuName(kernels.BestISA(), d.ElemBits()), nil
	case "ref":
		d := kernels.Reference()
		return d, fmt.Sprintf("ref (float%d)", d.ElemBits()), nil
	}
	if strings.HasPrefix(name, "cuda") {
		return nil, "", usageError("aviary devices lists what there is", "--device %s: this version has no GPU device", name)
	}
	return nil, "", usageError("aviary devices lists what there is", "--device is %q, expected auto, cpu or ref", name)
}

// cpuName names the CPU device in reports, without its threads, and without its
// instruction set if that is one of those that give the same bits: a run may be
// resumed on another machine of the cluster.
func cpuName(isa kernels.ISA, bits int) string {
	if isa == kernels.Portable {
		return fmt.Sprintf("cpu (%v, float%d)", isa, bits)
	}
	return fmt.Sprintf("cpu (float%d)", bits)
}
