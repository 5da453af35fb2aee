package onerun

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit"
)

// record is one line of the journal; exactly one field is set. The first line
// has Game.
type record struct {
	Game     *gameRecord     `json:"game,omitempty"`
	Canaries *canariesRecord `json:"canaries,omitempty"`
	Unit     *unitRecord     `json:"audit,omitempty"`
}

// gameRecord pins what must not change between a game and its resumption.
type gameRecord struct {
	Seed        uint64   `json:"seed"`
	Methods     []string `json:"methods"`
	NumCanaries int      `json:"num_canaries"`
	Sets        int      `json:"sets"`
	Audits      int      `json:"audits"`
	Model       string   `json:"model"`
	Recipe      string   `json:"recipe"`
	Device      string   `json:"device"`
	Data        string   `json:"data_sha256"`
	Test        string   `json:"test_sha256"`
	Models      bool     `json:"models"` // whether models are kept
}

// journalFormat is the configuration that the journal is opened with; the
// settings are compared one by one, so that errors can name them.
const journalFormat = "onerun/1"

type canariesRecord struct {
	Method  string  `json:"method"`
	Set     int     `json:"set"`
	File    string  `json:"file"` // relative to the run directory, with slashes
	SHA256  string  `json:"sha256"`
	Seconds float64 `json:"seconds"`
	// Stages is how long each stage of a Staged selector took.
	Stages map[string]float64 `json:"stages,omitempty"`
}

// unitRecord is one finished audit.
type unitRecord struct {
	place
	Members      int           `json:"members"`
	AUC          float64       `json:"auc"`
	TPR          float64       `json:"tpr_at_fpr_0.05"`
	LossIn       float64       `json:"loss_in"`
	LossOut      float64       `json:"loss_out"`
	Tied         int           `json:"tied,omitempty"` // scores that another canary of the audit has too
	TestAccuracy *float64      `json:"test_accuracy,omitempty"`
	Curve        []audit.Point `json:"curve,omitempty"`
	File         string        `json:"file"` // score file, relative to the run directory
	SHA256       string        `json:"sha256"`
	Seconds      float64       `json:"seconds"`

	// bounds is not kept: it follows from the score file and the report's δ.
	bounds []AuditBound
}

// run is the unit as reports show it.
func (u unitRecord) run() audit.Run {
	return audit.Run{Set: u.Set, Audit: u.Audit, Members: u.Members, Scores: u.File, AUC: u.AUC, TPR: u.TPR, Curve: u.Curve}
}

// differs names the first setting in which two games differ.
func (a gameRecord) differs(b gameRecord) error {
	for _, f := range []struct {
		name   string
		before any
		now    any
	}{
		{"seed", a.Seed, b.Seed},
		{"methods", a.Methods, b.Methods},
		{"number of canaries", a.NumCanaries, b.NumCanaries},
		{"sets", a.Sets, b.Sets},
		{"audits", a.Audits, b.Audits},
		{"model", a.Model, b.Model},
		{"recipe", a.Recipe, b.Recipe},
		{"device", a.Device, b.Device},
		{"training data (SHA-256)", a.Data, b.Data},
		{"test data (SHA-256)", a.Test, b.Test},
		{"keeping of models", a.Models, b.Models},
	} {
		if before, now := fmt.Sprint(f.before), fmt.Sprint(f.now); before != now {
			return fmt.Errorf("%s was %s, now %s", f.name, before, now)
		}
	}
	return nil
}
