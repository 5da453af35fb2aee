package pe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stub answers as an endpoint does; do says what to the n-th request.
func stub(t *testing.T, do func(n int, r request, w http.ResponseWriter)) (*LLM, *int, *[]time.Duration) {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q request
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer secret" || json.NewDecoder(r.Body).Decode(&q) != nil {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		n++
		do(n, q, w)
	}))
	t.Cleanup(server.Close)
	var slept []time.Duration
	l := &LLM{URL: server.URL + "/v1/", Model: "m", Key: "secret", Tries: 4}
	l.wait = func(ctx context.Context, d time.Duration) error {
		slept = append(slept, d)
		return ctx.Err()
	}
	return l, &n, &slept
}

func say(w http.ResponseWriter, text string) {
	fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%q}}]}`, text)
}

// TestAskIsCached: nothing is asked twice, not after a restart either.
func TestAskIsCached(t *testing.T) {
	l, n, _ := stub(t, func(n int, r request, w http.ResponseWriter) {
		say(w, fmt.Sprintf(" %s %d %v\n", r.Messages[0].Content, r.Seed, r.Temperature))
	})
	path := filepath.Join(t.TempDir(), "llm.jsonl")
	for range 2 {
		if err := l.OpenCache(path); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, seed := range []uint64{1, 2} {
				got, err := l.Ask(t.Context(), "hello", .5, seed)
				if want := fmt.Sprintf("hello %d 0.5", seed); err != nil || got != want {
					t.Errorf("%q, %v; expected %q", got, err, want)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if *n != 2 {
		t.Errorf("%d requests, expected 2", *n)
	}
}

// TestAskAgain: failures that may pass are tried again, after the time the server
// asks for; others are not.
func TestAskAgain(t *testing.T) {
	l, n, slept := stub(t, func(n int, _ request, w http.ResponseWriter) {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		case 3:
			say(w, " ")
		default:
			say(w, "yes")
		}
	})
	got, err := l.Ask(t.Context(), "x", 0, 1)
	if err != nil || got != "yes" || *n != 4 || (*slept)[0] != 7*time.Second || (*slept)[1] != 2*time.Second {
		t.Errorf("%q, %v after %d requests and pauses of %v", got, err, *n, *slept)
	}
	for want, answer := range map[string]func(w http.ResponseWriter){
		"no such model": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"message":"no such model"}}`)
		},
		"no JSON":             func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"500 Internal Server": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"an empty answer (tr": func(w http.ResponseWriter) { fmt.Fprint(w, `{"choices":[]}`) },
	} {
		l, n, _ := stub(t, func(_ int, _ request, w http.ResponseWriter) { answer(w) })
		_, err := l.Ask(t.Context(), "x", 0, 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if tries := map[bool]int{true: 4, false: 1}[strings.Contains(want, "500") || strings.Contains(want, "empty")]; *n != tries {
			t.Errorf("%s: %d requests, expected %d", want, *n, tries)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	l, _, _ = stub(t, func(_ int, _ request, w http.ResponseWriter) { stop(); w.WriteHeader(http.StatusBadGateway) })
	if _, err := l.Ask(ctx, "x", 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := (&LLM{URL: "http://127.0.0.1:1", Model: "m", Tries: 1}).Ask(t.Context(), "x", 0, 1); err == nil {
		t.Error("nobody there: no error")
	}
}
