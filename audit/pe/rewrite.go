package pe

import (
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"
)

// RewriterName is what reports call the offline rewriter.
const RewriterName = "offline rewriter (rules, no language model)"

// synonyms are words that can stand for each other in most sentences.
var synonyms = [][]string{
	{"good", "fine", "decent"}, {"great", "excellent", "superb"}, {"bad", "poor", "awful"}, {"big", "large", "sizeable"},
	{"small", "little", "compact"}, {"fast", "quick", "speedy"}, {"easy", "simple", "straightforward"}, {"hard", "difficult", "tough"},
	{"buy", "purchase", "get"}, {"bought", "purchased", "got"}, {"use", "employ", "apply"}, {"used", "employed", "applied"},
	{"make", "create", "produce"}, {"made", "created", "produced"}, {"help", "assist", "aid"}, {"start", "begin", "commence"},
	{"started", "began", "commenced"}, {"stop", "quit", "cease"}, {"stopped", "quit", "ceased"}, {"show", "display", "present"},
	{"many", "numerous", "plenty of"}, {"some", "several", "a few"}, {"very", "really", "quite"}, {"also", "too", "as well"},
	{"but", "yet", "though"}, {"because", "since", "as"}, {"however", "still", "even so"}, {"often", "frequently", "regularly"},
	{"always", "constantly", "invariably"}, {"never", "at no time", "not once"}, {"maybe", "perhaps", "possibly"}, {"nice", "pleasant", "lovely"},
	{"problem", "issue", "trouble"}, {"problems", "issues", "troubles"}, {"place", "spot", "location"}, {"people", "folks", "persons"},
	{"thing", "item", "matter"}, {"things", "items", "matters"}, {"think", "believe", "feel"}, {"thought", "believed", "felt"},
	{"like", "enjoy", "appreciate"}, {"love", "adore", "cherish"}, {"need", "require", "want"}, {"needs", "requires", "wants"},
	{"provides", "offers", "supplies"}, {"provide", "offer", "supply"}, {"contains", "includes", "holds"}, {"contain", "include", "hold"},
	{"allows", "lets", "permits"}, {"allow", "let", "permit"}, {"supports", "handles", "covers"}, {"support", "handle", "cover"},
	{"designed", "intended", "meant"}, {"library", "toolkit", "collection of routines"}, {"program", "application", "tool"}, {"package", "bundle", "distribution"},
	{"files", "documents", "data files"}, {"file", "document", "data file"}, {"data", "information", "content"}, {"simple", "plain", "basic"},
	{"different", "various", "diverse"}, {"new", "fresh", "recent"}, {"old", "aged", "former"}, {"whole", "entire", "complete"},
	{"important", "significant", "crucial"}, {"main", "primary", "chief"}, {"several", "some", "a number of"}, {"about", "around", "roughly"},
	{"get", "obtain", "receive"}, {"give", "hand", "grant"}, {"keep", "retain", "hold on to"}, {"try", "attempt", "seek"},
	{"tried", "attempted", "sought"}, {"ask", "request", "inquire"}, {"asked", "requested", "inquired"}, {"tell", "inform", "let know"},
	{"told", "informed", "notified"}, {"felt", "sensed", "experienced"}, {"day", "24 hours", "date"}, {"doctor", "physician", "medic"},
	{"side effects", "adverse effects", "unwanted effects"}, {"pain", "ache", "soreness"}, {"medicine", "medication", "drug"}, {"works", "functions", "operates"},
	{"work", "function", "operate"}, {"food", "meal", "fare"}, {"service", "attendance", "assistance"}, {"staff", "personnel", "crew"},
	{"price", "cost", "charge"}, {"cheap", "inexpensive", "low-priced"}, {"expensive", "costly", "pricey"}, {"recommend", "suggest", "endorse"},
	{"written", "authored", "composed"}, {"based", "built", "founded"}, {"fully", "completely", "entirely"}, {"usually", "normally", "typically"},
}

// openers can begin any sentence.
var openers = []string{"In short, ", "Put differently, ", "As it happens, ", "To be clear, ", "Overall, ", "In other words, ", "Basically, ", "For what it is worth, "}

// thesaurus finds the others of a word.
var thesaurus = func() map[string][]string {
	m := map[string][]string{}
	for _, set := range synonyms {
		for _, w := range set {
			for _, o := range set {
				if o != w && !strings.Contains(w, " ") {
					m[w] = append(m[w], o)
				}
			}
		}
	}
	return m
}()

// Rewrite makes a variant of a text by rules: other words, other order of
// sentences, an opener. It keeps most words, so that the variant is near the text;
// language models vary more.
func Rewrite(text string, r *rand.Rand) string {
	sentences := sentences(text)
	if len(sentences) > 1 && r.IntN(2) == 0 {
		cut := 1 + r.IntN(len(sentences)-1)
		sentences = append(append([]string{}, sentences[cut:]...), sentences[:cut]...)
	}
	if len(sentences) > 3 && r.IntN(3) == 0 {
		i := r.IntN(len(sentences))
		sentences = append(append([]string{}, sentences[:i]...), sentences[i+1:]...)
	}
	for i, s := range sentences {
		sentences[i] = swapWords(s, r)
	}
	out := strings.Join(sentences, " ")
	if r.IntN(2) == 0 || out == text || out == "" {
		out = openers[r.IntN(len(openers))] + lowerFirst(out)
	}
	return out
}

// swapWords puts a synonym for about half of the words that have one.
func swapWords(s string, r *rand.Rand) string {
	words := strings.Fields(s)
	for i, w := range words {
		start := strings.IndexFunc(w, isLetter)
		end := strings.LastIndexFunc(w, isLetter)
		if start < 0 {
			continue
		}
		_, size := utf8.DecodeRuneInString(w[end:])
		core := w[start : end+size]
		others := thesaurus[strings.ToLower(core)]
		if len(others) == 0 || r.IntN(2) == 0 {
			continue
		}
		other := others[r.IntN(len(others))]
		if first, _ := utf8.DecodeRuneInString(core); unicode.IsUpper(first) {
			other = strings.ToUpper(other[:1]) + other[1:]
		}
		words[i] = w[:start] + other + w[end+size:]
	}
	return strings.Join(words, " ")
}

func isLetter(r rune) bool { return unicode.IsLetter(r) }

// sentences ends one after . ! ? and a space.
func sentences(text string) []string {
	var out []string
	var now []string
	for _, w := range strings.Fields(text) {
		now = append(now, w)
		if strings.ContainsRune(".!?", rune(w[len(w)-1])) {
			out = append(out, strings.Join(now, " "))
			now = nil
		}
	}
	if len(now) > 0 {
		out = append(out, strings.Join(now, " "))
	}
	return out
}

func lowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[size:])
	if unicode.IsUpper(second) || !unicode.IsUpper(first) { // an acronym stays
		return s
	}
	return string(unicode.ToLower(first)) + s[size:]
}
