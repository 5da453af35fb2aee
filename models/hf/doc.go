// Package hf reads models from folders as Hugging Face lays them out: encoders of
// the BERT family with config.json, weights in safetensors and, for sentence
// embeddings, the files of sentence-transformers. Nothing is ever unpickled.
package hf
