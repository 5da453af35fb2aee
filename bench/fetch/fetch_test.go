package fetch

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/abc" {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Write([]byte("abc"))
	}))
	defer server.Close()
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-4
	if got, err := Get(server.URL+"/abc", sum); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
	for path, want := range map[string]string{"/abc": "SHA-256 is ba78", "/none": "404"} {
		if _, err := Get(server.URL+path, strings.Replace(sum, "ba", "bb", 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
