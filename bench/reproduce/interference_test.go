package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInterferenceTable(t *testing.T) {
	dir := t.TempDir()
	result, out := filepath.Join(dir, "result.json"), filepath.Join(dir, "out.json")
	write := func(text string) {
		if err := os.WriteFile(result, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"canaries":[{"canary":1}],"mean_gap":1.5,"interference":{"value":0.25,"low":0.125},"median_ratio":{}}`)
	var b strings.Builder
	if err := interference(&b, out, []string{"a=" + result}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(b.String()), " "); !strings.HasSuffix(got, "a 1.500 0.2500 (0.1250 to -) - (- to -)") {
		t.Errorf("table:\n%s", b.String())
	}
	if text, err := os.ReadFile(out); err != nil || !strings.Contains(string(text), `"mean_gap": 1.5`) {
		t.Errorf("%s, %v", text, err)
	}
	for _, text := range []string{"{}", "[", ""} {
		write(text)
		if err := interference(&b, out, []string{"a=" + result}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	for _, args := range [][]string{{}, {"a"}, {"a=" + filepath.Join(dir, "none")}} {
		if err := interference(&b, out, args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
