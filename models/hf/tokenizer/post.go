package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// post is what is put before and behind the tokens of a text.
type post struct{ before, behind []int32 }

// postJSON is any post-processor of the file.
type postJSON struct {
	Type string `json:"type"`
	// Sequence
	Processors []*postJSON `json:"processors"`
	// BertProcessing, RobertaProcessing
	Sep *namedID `json:"sep"`
	Cls *namedID `json:"cls"`
	// TemplateProcessing. Its pair is of no use here.
	Single  []templatePiece `json:"single"`
	Special map[string]struct {
		IDs []int64 `json:"ids"`
	} `json:"special_tokens"`
}

// namedID is ["[SEP]", 102].
type namedID int64

func (n *namedID) UnmarshalJSON(raw []byte) error {
	var parts []json.RawMessage
	var name string
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	if len(parts) != 2 || json.Unmarshal(parts[0], &name) != nil || json.Unmarshal(parts[1], (*int64)(n)) != nil {
		return fmt.Errorf("post_processor: %.80s is no token and id", raw)
	}
	return nil
}

type templatePiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	}
	Sequence *struct {
		ID string `json:"id"`
	}
}

func (j *postJSON) build() (p post, err error) {
	if j == nil {
		return post{}, nil
	}
	switch j.Type {
	case "ByteLevel": // moves offsets only
	case "BertProcessing", "RobertaProcessing":
		if j.Sep == nil || j.Cls == nil {
			return post{}, fmt.Errorf("post_processor %s lacks sep or cls", j.Type)
		}
		p.before, err = ids32(nil, int64(*j.Cls))
		if err == nil {
			p.behind, err = ids32(nil, int64(*j.Sep))
		}
	case "TemplateProcessing":
		return j.template()
	case "Sequence":
		for i, step := range j.Processors {
			if step == nil {
				return post{}, fmt.Errorf("post_processor %d of a Sequence is null", i)
			}
			outer, err := step.build()
			if err != nil {
				return post{}, err
			}
			p = post{append(outer.before, p.before...), append(p.behind, outer.behind...)}
		}
	default:
		return post{}, fmt.Errorf("post_processor of type %q is not supported, expected BertProcessing, ByteLevel, RobertaProcessing, "+
			"Sequence or TemplateProcessing", j.Type)
	}
	return p, err
}

func (j *postJSON) template() (p post, err error) {
	texts := 0
	for i, piece := range j.Single {
		switch {
		case piece.Sequence != nil && piece.Sequence.ID == "A":
			texts++
		case piece.SpecialToken != nil:
			special, ok := j.Special[piece.SpecialToken.ID]
			if !ok {
				return post{}, fmt.Errorf("post_processor TemplateProcessing: special_tokens lacks %q", piece.SpecialToken.ID)
			}
			list := &p.before
			if texts > 0 {
				list = &p.behind
			}
			if *list, err = ids32(*list, special.IDs...); err != nil {
				return post{}, err
			}
		default:
			return post{}, fmt.Errorf("post_processor TemplateProcessing: piece %d of single is neither the sequence A nor a special token", i)
		}
	}
	if texts != 1 {
		return post{}, errors.New("post_processor TemplateProcessing: expected the sequence A in single, once")
	}
	return p, nil
}

func ids32(list []int32, ids ...int64) ([]int32, error) {
	for _, id := range ids {
		if id < 0 || id >= maxID {
			return nil, fmt.Errorf("post_processor: id %d, expected 0 to %d", id, maxID-1)
		}
		list = append(list, int32(id))
	}
	return list, nil
}

// truncationJSON is how long texts are cut, unless the caller of Encode says so.
type truncationJSON struct {
	Direction string `json:"direction"` // which end is cut off; Right where there is none
	MaxLength *int   `json:"max_length"`
	Strategy  string `json:"strategy"`
}

// read returns the most tokens, or 0 for no limit.
func (j *truncationJSON) read(special int) (limit int, left bool, err error) {
	if j == nil {
		return 0, false, nil
	}
	switch {
	case j.MaxLength == nil || *j.MaxLength < max(1, special):
		return 0, false, fmt.Errorf("truncation needs a max_length of at least 1 and of the %d special tokens", special)
	case j.Direction != "" && j.Direction != "Left" && j.Direction != "Right":
		return 0, false, fmt.Errorf("truncation: direction %q, expected Left or Right", j.Direction)
	case j.Strategy != "LongestFirst" && j.Strategy != "OnlyFirst":
		return 0, false, fmt.Errorf("truncation: strategy %q is not supported, expected LongestFirst or OnlyFirst", j.Strategy)
	}
	return *j.MaxLength, j.Direction == "Left", nil
}
