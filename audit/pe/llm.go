package pe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aviary-audit/aviary/internal/journal"
)

// LLM asks a language model behind an OpenAI-compatible endpoint. Answers are kept
// in a file, so that a job that was interrupted asks nothing twice, and a finished
// one is repeated without the model.
type LLM struct {
	URL   string // base, to which /chat/completions is added
	Model string
	Key   string // sent as a bearer token; "" for none
	// Tries is how often a request is sent before its failure is told: failures of
	// the network, 429 and 5xx are tried again.
	Tries  int
	Client *http.Client
	// wait sleeps; tests replace it.
	wait func(context.Context, time.Duration) error

	cache   *journal.Journal[answer]
	answers map[string]string
}

// answer is one of the model's, under the hash of what was asked.
type answer struct {
	Asked string `json:"asked"`
	Text  string `json:"text"`
}

// OpenCache reads the answers in a file, and keeps further ones there.
func (l *LLM) OpenCache(path string) error {
	j, err := journal.Open[answer](path, "llm/1")
	if err != nil {
		return err
	}
	l.cache, l.answers = j, map[string]string{}
	for _, a := range j.Records() {
		l.answers[a.Asked] = a.Text
	}
	return nil
}

// Close ends the use of the cache.
func (l *LLM) Close() error {
	if l.cache == nil {
		return nil
	}
	return l.cache.Close()
}

// request and reply are the parts of the protocol that are used:
// https://platform.openai.com/docs/api-reference/chat.
type request struct {
	Model       string    `json:"model"`
	Messages    []message `json:"messages"`
	Temperature float64   `json:"temperature"`
	Seed        uint64    `json:"seed"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type reply struct {
	Choices []struct {
		Message message `json:"message"`
	} `json:"choices"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Ask returns the answer to a prompt. Different seeds give different answers.
func (l *LLM) Ask(ctx context.Context, prompt string, temperature float64, seed uint64) (string, error) {
	body, err := json.Marshal(request{l.Model, []message{{"user", prompt}}, temperature, seed & math.MaxInt32})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	asked := hex.EncodeToString(sum[:])
	if text, known := l.answers[asked]; known {
		return text, nil
	}
	text, err := l.retried(ctx, body)
	if err != nil {
		return "", fmt.Errorf("%s: model %s: %w", l.URL, l.Model, err)
	}
	if l.cache != nil {
		if err := l.cache.Append(answer{asked, text}); err != nil {
			return "", err
		}
		l.answers[asked] = text
	}
	return text, nil
}

// again is a failure that may pass.
type again struct {
	error
	after time.Duration // as the server asked; 0 if it did not
}

func (a again) Unwrap() error { return a.error }

func (l *LLM) retried(ctx context.Context, body []byte) (string, error) {
	pause := time.Second
	for try := 1; ; try++ {
		text, err := l.send(ctx, body)
		var passes again
		if err == nil || ctx.Err() != nil || !errors.As(err, &passes) || try >= max(1, l.Tries) {
			if err != nil && try > 1 {
				err = fmt.Errorf("%w (tried %d times)", err, try)
			}
			return text, err
		}
		sleep := l.wait
		if sleep == nil {
			sleep = wait
		}
		if err := sleep(ctx, max(pause, passes.after)); err != nil {
			return "", err
		}
		pause = min(2*pause, time.Minute)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

const mostAnswer = 1 << 24 // bytes

func (l *LLM) send(ctx context.Context, body []byte) (string, error) {
	url := strings.TrimSuffix(l.URL, "/") + "/chat/completions"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if l.Key != "" {
		r.Header.Set("Authorization", "Bearer "+l.Key)
	}
	client := l.Client
	if client == nil {
		client = &http.Client{Timeout: 10 * time.Minute}
	}
	a, err := client.Do(r)
	if err != nil {
		return "", again{err, 0}
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, mostAnswer))
	if err != nil {
		return "", again{err, 0}
	}
	var got reply
	wrong := json.Unmarshal(text, &got)
	if a.StatusCode != http.StatusOK {
		said := fmt.Sprintf("%.200q", text)
		if wrong == nil && got.Error != nil {
			said = got.Error.Message
		}
		err := fmt.Errorf("%s: %s", a.Status, said)
		if a.StatusCode == http.StatusTooManyRequests || a.StatusCode >= 500 {
			seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
			return "", again{err, time.Duration(seconds) * time.Second}
		}
		return "", err
	}
	if wrong != nil {
		return "", fmt.Errorf("an answer that is no JSON: %.200q", text)
	}
	if len(got.Choices) == 0 || strings.TrimSpace(got.Choices[0].Message.Content) == "" {
		return "", again{errors.New("an empty answer"), 0}
	}
	return strings.TrimSpace(got.Choices[0].Message.Content), nil
}
