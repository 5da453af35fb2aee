package npz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

const magic = "\x93NUMPY"

// maxHeader bounds the header's text. numpy itself refuses to read more than
// 10,000 bytes unless told that the file is trusted.
const maxHeader = 1 << 16

// header is what an .npy file says before its data.
type header struct {
	dtype   dtype
	fortran bool
	shape   []int
	bytes   int64 // how long the header was
}

// readHeader reads the magic, the version and the dictionary.
func readHeader(r io.Reader) (header, error) {
	var start [8]byte
	if n, err := io.ReadFull(r, start[:]); err != nil {
		return header{}, headerCut(err, n, len(start))
	}
	if string(start[:6]) != magic {
		return header{}, fmt.Errorf("not an npy array: starts with %q, expected %q", start[:6], magic)
	}
	version := start[6]
	width := 2 // of the length of the dictionary
	switch version {
	case 1:
	case 2, 3:
		width = 4
	default:
		return header{}, fmt.Errorf("npy version %d.%d, expected 1, 2 or 3", version, start[7])
	}
	var field [4]byte
	if n, err := io.ReadFull(r, field[:width]); err != nil {
		return header{}, headerCut(err, len(start)+n, len(start)+width)
	}
	length := binary.LittleEndian.Uint32(field[:])
	if length > maxHeader {
		return header{}, fmt.Errorf("npy header of %d bytes, expected at most %d", length, maxHeader)
	}
	text := make([]byte, length)
	if n, err := io.ReadFull(r, text); err != nil {
		return header{}, headerCut(err, len(start)+width+n, len(start)+width+len(text))
	}
	h, err := parseHeader(string(text))
	h.bytes = int64(len(start) + width + len(text))
	return h, err
}

func headerCut(err error, got, want int) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated: %d bytes, expected a header of at least %d", got, want)
	}
	return err
}

// parseHeader reads the dictionary: a Python literal with the keys descr,
// fortran_order and shape in any order.
func parseHeader(text string) (header, error) {
	p := parser{text: text}
	var h header
	seen := map[string]bool{}
	bad := func(err error) (header, error) {
		return header{}, fmt.Errorf("npy header %.200q: %w", strings.TrimRight(text, " \n"), err)
	}
	if err := p.expect('{'); err != nil {
		return bad(err)
	}
	for !p.accept('}') {
		key, err := p.str()
		if err != nil {
			return bad(err)
		}
		if seen[key] {
			return bad(fmt.Errorf("%q comes twice", key))
		}
		seen[key] = true
		if err := p.expect(':'); err != nil {
			return bad(err)
		}
		switch key {
		case "descr":
			h.dtype, err = p.dtype()
		case "fortran_order":
			h.fortran, err = p.boolean()
		case "shape":
			h.shape, err = p.tuple()
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return bad(err)
		}
		if !p.accept(',') {
			if err := p.expect('}'); err != nil {
				return bad(err)
			}
			break
		}
	}
	if rest := strings.TrimSpace(p.text); rest != "" {
		return bad(fmt.Errorf("%.40q after the dictionary", rest))
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return bad(fmt.Errorf("no key %q", key))
		}
	}
	return h, nil
}

// parser reads the few Python literals that headers are made of; text is what
// is left.
type parser struct{ text string }

func (p *parser) space() { p.text = strings.TrimLeft(p.text, " \t\r\n") }

func (p *parser) accept(c byte) bool {
	p.space()
	if p.text == "" || p.text[0] != c {
		return false
	}
	p.text = p.text[1:]
	return true
}

func (p *parser) expect(c byte) error {
	if !p.accept(c) {
		return fmt.Errorf("%.20q where %q was expected", p.text, c)
	}
	return nil
}

func (p *parser) str() (string, error) {
	p.space()
	if p.text == "" || p.text[0] != '\'' && p.text[0] != '"' {
		return "", fmt.Errorf("%.20q where a string was expected", p.text)
	}
	end := strings.IndexByte(p.text[1:], p.text[0])
	if end < 0 {
		return "", fmt.Errorf("string %.20q has no end", p.text)
	}
	s := p.text[1 : 1+end]
	p.text = p.text[2+end:]
	return s, nil
}

func (p *parser) boolean() (bool, error) {
	p.space()
	for _, word := range []string{"True", "False"} {
		if rest, ok := strings.CutPrefix(p.text, word); ok {
			p.text = rest
			return word == "True", nil
		}
	}
	return false, fmt.Errorf("%.20q where True or False was expected", p.text)
}

func (p *parser) tuple() ([]int, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	shape := []int{}
	for !p.accept(')') {
		p.space()
		end := strings.IndexFunc(p.text, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 {
			return nil, fmt.Errorf("%.20q where a dimension was expected", p.text)
		}
		d, err := strconv.ParseInt(p.text[:end], 10, strconv.IntSize)
		if err != nil {
			return nil, fmt.Errorf("dimension %.40s is too large", p.text[:end])
		}
		shape = append(shape, int(d))
		p.text = strings.TrimPrefix(p.text[end:], "L") // written by Python 2
		if !p.accept(',') {
			if err := p.expect(')'); err != nil {
				return nil, err
			}
			break
		}
	}
	return shape, nil
}

// dtype reads the value of descr, and says what is wrong with the types that
// are not read here.
func (p *parser) dtype() (dtype, error) {
	const expected = "expected bool, an integer type, float32 or float64, little-endian"
	p.space()
	if strings.HasPrefix(p.text, "[") {
		return dtype{}, fmt.Errorf("dtype is structured, %s", expected)
	}
	s, err := p.str()
	if err != nil {
		return dtype{}, err
	}
	order, code := byte('|'), s
	if s != "" && strings.IndexByte("<>|=", s[0]) >= 0 {
		order, code = s[0], s[1:]
	}
	t, ok := typeOfCode(code)
	switch {
	case ok && order == '>' && t.size > 1:
		return dtype{}, fmt.Errorf("dtype %q is big-endian %s, %s", s, t.name, expected)
	case ok && (order == '<' || t.size == 1):
		return t, nil
	case code == "O":
		return dtype{}, fmt.Errorf("dtype %q is Python objects (pickle), which are never read; %s", s, expected)
	case strings.HasPrefix(code, "U"), strings.HasPrefix(code, "S"):
		return dtype{}, fmt.Errorf("dtype %q is text, %s", s, expected)
	case strings.HasPrefix(code, "c"):
		return dtype{}, fmt.Errorf("dtype %q is complex, %s", s, expected)
	}
	return dtype{}, fmt.Errorf("dtype %q, %s", s, expected)
}

// appendHeader appends numpy's own spelling of a version 1 header, padded so
// that the data start at a multiple of 64 bytes.
func appendHeader(b []byte, t dtype, shape []int) ([]byte, error) {
	order := byte('<')
	if t.size == 1 {
		order = '|'
	}
	var dict bytes.Buffer
	fmt.Fprintf(&dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, t.code)
	for i, d := range shape {
		if i > 0 {
			dict.WriteString(", ")
		}
		dict.WriteString(strconv.Itoa(d))
	}
	if len(shape) == 1 {
		dict.WriteByte(',')
	}
	dict.WriteString("), }")
	const before = len(magic) + 4
	pad := 63 - (before+dict.Len())%64
	length := dict.Len() + pad + 1
	if length > maxHeader-64 {
		return nil, fmt.Errorf("%d dimensions are too many", len(shape))
	}
	b = append(b, magic...)
	b = append(b, 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(length))
	b = append(b, dict.Bytes()...)
	b = append(b, strings.Repeat(" ", pad)...)
	return append(b, '\n'), nil
}
