// Package tokenizer turns texts into token ids as a tokenizer.json of Hugging Face
// says, id for id as its `tokenizers` library does (compared with version 0.23.3):
// WordPiece and byte pair encoding, with the normalizers, pre-tokenizers and
// post-processors that come with them. What it does not know it refuses to open.
package tokenizer
