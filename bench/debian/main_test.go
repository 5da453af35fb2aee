package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestGroup: each paragraph goes to one user of its maintainer, or to none.
func TestGroup(t *testing.T) {
	var packages, translation strings.Builder
	add := func(name, who string, paragraphs ...string) {
		fmt.Fprintf(&packages, "Package: %s\nMaintainer: %s\nSection: x\nDescription-md5: %s\n\n", name, who, name)
		fmt.Fprintf(&translation, "Package: %s\nDescription-md5: %s\nDescription-en: one line\n", name, name)
		for i, p := range paragraphs {
			if i > 0 {
				translation.WriteString(" .\n")
			}
			fmt.Fprintf(&translation, " %s\n", strings.ReplaceAll(p, "\n", "\n "))
		}
		translation.WriteByte('\n')
	}
	long := strings.Repeat("a word ", 8)
	for i := range 70 {
		add(fmt.Sprintf("big%d", i), "Big", fmt.Sprintf("%s\n%d", long, i), "short", long) // the last is there once
	}
	add("small", "Small", long+" other")
	users, others, err := group(strings.NewReader(packages.String()), strings.NewReader(translation.String()))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	ids := map[string]bool{}
	for _, r := range users {
		count[r.User]++
		ids[r.ID] = true
	}
	if len(users) != 71 || len(ids) != 71 || count["u0000"] != 35 || count["u0001"] != 36 {
		t.Errorf("%d records, %d ids, of users %v; expected 71 in 35 and 36", len(users), len(ids), count)
	}
	if len(others) != 1 || others[0].ID != "small/0" || others[0].User != "" {
		t.Errorf("records of no user: %+v", others)
	}
	if want := strings.TrimSpace(long) + " 0"; users[0].Text != want {
		t.Errorf("text %q, expected %q", users[0].Text, want)
	}
	for _, bad := range []string{"", "no field here\n"} {
		if _, _, err := group(strings.NewReader(bad), strings.NewReader("")); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
