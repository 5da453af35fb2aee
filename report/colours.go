package report

import (
	"fmt"
	"html/template"
	"image/color"
	"strings"
)

// palette is the colours of methods on a light and on a dark ground: those of
// Okabe and Ito (2008), told apart by readers with any colour vision, and
// lighter ones of the same hues. Lines also differ in their dashes.
var palette = []struct{ light, dark string }{
	{"#0072b2", "#5cb6ee"}, // blue
	{"#d55e00", "#ff8f45"}, // vermilion
	{"#00805e", "#35c79f"}, // green
	{"#b0578d", "#e39cc4"}, // purple
	{"#8a6d00", "#e8bd3f"}, // ochre
}

// neutrals are the colours that are not a method's, on light and dark ground.
var neutrals = []struct{ name, light, dark string }{
	{"page", "#ffffff", "#14171c"},
	{"card", "#f5f7fa", "#1d2229"},
	{"text", "#1a1f26", "#e8ebef"},
	{"soft", "#59636f", "#a3adb8"},
	{"grid", "#dfe4ea", "#323a44"},
	{"link", "#005a9c", "#7cc0f5"},
	{"warn", "#b34700", "#ff9a57"},
}

// variables defines the CSS variables of the page, for light and dark.
func variables() template.CSS {
	var light, dark strings.Builder
	for _, n := range neutrals {
		fmt.Fprintf(&light, "--%s:%s;", n.name, n.light)
		fmt.Fprintf(&dark, "--%s:%s;", n.name, n.dark)
	}
	for i, p := range palette {
		fmt.Fprintf(&light, "--m%d:%s;", i, p.light)
		fmt.Fprintf(&dark, "--m%d:%s;", i, p.dark)
	}
	return template.CSS(fmt.Sprintf(":root{color-scheme:light dark;%s}\n@media screen and (prefers-color-scheme:dark){:root{%s}}\n", &light, &dark))
}

// lightCSS is the style sheet with light colours in place of the variables.
func lightCSS(css string) template.CSS {
	var pairs []string
	for _, n := range neutrals {
		pairs = append(pairs, "var(--"+n.name+")", n.light)
	}
	for i, p := range palette {
		pairs = append(pairs, fmt.Sprintf("var(--m%d)", i), p.light)
	}
	return template.CSS(strings.NewReplacer(pairs...).Replace(css))
}

// neutral is a neutral's light colour.
func neutral(name string) string {
	for _, n := range neutrals {
		if n.name == name {
			return n.light
		}
	}
	panic("report: no colour " + name)
}

// colourOf reads "#rrggbb", which is always one of our constants.
func colourOf(hex string, opacity float64) color.Color {
	var r, g, b uint8
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &r, &g, &b); err != nil {
		panic("report: colour " + hex)
	}
	return color.NRGBA{R: r, G: g, B: b, A: uint8(255*opacity + 0.5)}
}
