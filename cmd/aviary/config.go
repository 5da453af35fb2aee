package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// notInFiles are flags that a configuration file cannot hold, because they
// are about this call of the program.
var notInFiles = []string{"config", "help", "resume"}

// loadConfig sets the flags that the YAML file at path names and the command
// line does not. Every key is a flag.
func loadConfig(path string, flags *pflag.FlagSet) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return inputError(err)
	}
	return parseConfig(path, text, flags)
}

func parseConfig(path string, text []byte, flags *pflag.FlagSet) error {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&doc)
	if err == nil {
		if err = dec.Decode(&more); err == nil {
			return usageError("", "%s:%d: a second YAML document, expected one", path, more.Line)
		}
	}
	if !errors.Is(err, io.EOF) {
		return usageError("", "%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil // empty, or comments only
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return usageError("", "%s:%d: expected settings as \"key: value\"", path, top.Line)
	}
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	line := map[string]int{}
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		flag := flags.Lookup(key.Value)
		if flag == nil || slices.Contains(notInFiles, key.Value) {
			return usageError(didYouMean(key.Value, configKeys(flags), "every key is a flag without its dashes"),
				"%s:%d: unknown key %q", path, key.Line, key.Value)
		}
		if first, twice := line[key.Value]; twice {
			return usageError("", "%s:%d: %s again, first in line %d", path, key.Line, key.Value, first)
		}
		line[key.Value] = key.Line
		if given[key.Value] {
			continue
		}
		if err := setFlag(flags, flag, value); err != nil {
			return usageError("", "%s:%d: %s: %w", path, value.Line, key.Value, err)
		}
	}
	return nil
}

// configKeys lists what a configuration file may hold.
func configKeys(flags *pflag.FlagSet) (keys []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFiles, f.Name) {
			keys = append(keys, f.Name)
		}
	})
	return keys
}

// setFlag gives a flag the value of a YAML node.
func setFlag(flags *pflag.FlagSet, flag *pflag.Flag, node *yaml.Node) error {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	list, isList := flag.Value.(pflag.SliceValue)
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag != "!!null":
		if err := flags.Set(flag.Name, node.Value); err != nil {
			return fmt.Errorf("%q, expected %s", node.Value, expected(flag, err))
		}
		return nil
	case node.Kind == yaml.SequenceNode && isList:
		items := make([]string, len(node.Content))
		for i, item := range node.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return fmt.Errorf("item %d is not a plain value", i+1)
			}
			items[i] = item.Value
		}
		if err := flags.Set(flag.Name, ""); err != nil { // marks it as given
			return err
		}
		return list.Replace(items) // items may hold commas
	}
	return fmt.Errorf("expected %s", kindOf(flag))
}

// expected is what a flag should have been, given the error of setting it.
func expected(flag *pflag.Flag, err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return kindOf(flag) + " of at most 64 bits"
	}
	return kindOf(flag)
}

func kindOf(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number of at least 0"
	case "float64":
		return "a number"
	case "float64Slice":
		return "numbers, separated by commas"
	case "bool":
		return "true or false"
	case "stringSlice":
		return "a value or a list of values"
	}
	return "text"
}

// The settings that config.yaml leaves out: what only this call is about, and
// where the run is, so that it can be moved.
var notInRun = append([]string{"out", "json", "quiet", "dry-run", "add"}, notInFiles...)

// effectiveConfig is config.yaml: every setting as it is in effect.
func effectiveConfig(flags *pflag.FlagSet, comment string) ([]byte, error) {
	top := &yaml.Node{Kind: yaml.MappingNode, HeadComment: comment}
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notInRun, f.Name) {
			return
		}
		value := &yaml.Node{}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value.Kind, value.Style = yaml.SequenceNode, yaml.FlowStyle
			for _, item := range list.GetSlice() {
				value.Content = append(value.Content, text(item))
			}
		} else if value = text(f.Value.String()); f.Value.Type() != "string" {
			value.Tag, value.Style = "", 0 // a number or a truth value
		}
		top.Content = append(top.Content, text(f.Name), value)
	})
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(top); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// text is a YAML string, quoted where it would read as something else.
func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}
