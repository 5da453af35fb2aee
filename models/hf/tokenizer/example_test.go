package tokenizer_test

import (
	"fmt"

	"github.com/aviary-audit/aviary/models/hf/tokenizer"
)

func Example() {
	t, err := tokenizer.Parse([]byte(`{
		"added_tokens": [{"id": 1, "content": "[CLS]"}, {"id": 2, "content": "[SEP]"}],
		"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
		"pre_tokenizer": {"type": "BertPreTokenizer"},
		"post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
		"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
			"vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "cafe": 3, "##teria": 4, "!": 5}}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, maxLen := range []int{0, 4} {
		ids, err := t.Encode("Café, cafeteria!", maxLen)
		fmt.Println(ids, err)
	}
	// Output:
	// [1 3 0 3 4 5 2] <nil>
	// [1 3 0 2] <nil>
}
