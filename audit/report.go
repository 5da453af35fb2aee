package audit

// Schema is the version of report.json.
const Schema = "aviary/1"

// Report is what a one-run audit found; report.json is its JSON form. Two runs
// with the same configuration and seed differ in Timing and nowhere else.
type Report struct {
	Schema   string             `json:"schema"`
	Kind     string             `json:"kind"` // "onerun"
	Demo     bool               `json:"demo"`
	Version  string             `json:"version"` // of the program
	Seed     uint64             `json:"seed"`
	Data     string             `json:"data"`  // what was trained on, for people
	Model    string             `json:"model"` // e.g. "mlp:784-256-10"
	Recipe   string             `json:"recipe"`
	Device   string             `json:"device"`
	Examples int                `json:"examples"` // training examples before canaries displace some
	Canaries int                `json:"num_canaries"`
	Sets     int                `json:"sets"`
	Audits   int                `json:"audits"` // per set
	Methods  []Method           `json:"methods"`
	Notes    []string           `json:"notes,omitempty"` // caveats a reader must see
	Timing   map[string]float64 `json:"timing"`          // seconds: "total" and one per stage
}

// Method is one kind of canary, over all its audits.
type Method struct {
	Name         string   `json:"name"`
	AUC          Summary  `json:"auc"`
	TPR          Summary  `json:"tpr_at_fpr_0.05"`
	LossIn       Summary  `json:"loss_in"`  // mean loss of included canaries
	LossOut      Summary  `json:"loss_out"` // mean loss of the others
	TestAccuracy *Summary `json:"test_accuracy,omitempty"`
	Runs         []Run    `json:"runs"`
}

// Run is one audit: one training run.
type Run struct {
	Set     int     `json:"set"`
	Audit   int     `json:"audit"`
	Members int     `json:"members"`
	Scores  string  `json:"scores"` // path of the score file, relative to the run directory
	AUC     float64 `json:"auc"`
	TPR     float64 `json:"tpr_at_fpr_0.05"`
	Curve   []Point `json:"curve,omitempty"`
}

// Summary is a figure over audits. Low and High are a 95 % interval of the
// mean, clustered by canary set: audits of one set are not independent. That of
// a rate (AUC, TPR, accuracy) is cut to [0, 1], where the rate must lie.
type Summary struct {
	Mean   float64   `json:"mean"`
	SD     *float64  `json:"sd"` // sample standard deviation; null for one value
	Min    float64   `json:"min"`
	Values []float64 `json:"values"`
	Low    *float64  `json:"low"` // null for fewer than two sets
	High   *float64  `json:"high"`
}
