package audit

// Schema is the version of report.json.
const Schema = "aviary/1"

// Report is what a one-run audit found; report.json is its JSON form. Two runs
// with the same configuration and seed differ in Timing and nowhere else.
type Report struct {
	Schema   string  `json:"schema"`
	Kind     string  `json:"kind"` // "onerun"
	Demo     bool    `json:"demo"`
	Version  string  `json:"version"` // of the program
	Seed     uint64  `json:"seed"`
	Data     string  `json:"data"`  // what was trained on, for people
	Model    string  `json:"model"` // e.g. "mlp:784-256-10"
	Recipe   string  `json:"recipe"`
	Device   string  `json:"device"`
	Examples int     `json:"examples"` // training examples before canaries displace some
	Canaries int     `json:"num_canaries"`
	Sets     int     `json:"sets"`
	Audits   int     `json:"audits"` // per set
	Delta    float64 `json:"delta"`  // at which ε is bounded
	// Accounted is the ε at Delta that the training has at most, by the
	// accountant; nil where it is not known.
	Accounted *float64           `json:"accounted_epsilon,omitempty"`
	Methods   []Method           `json:"methods"`
	Paired    []Paired           `json:"paired,omitempty"` // methods against each other
	Notes     []string           `json:"notes,omitempty"`  // caveats a reader must see
	Timing    map[string]float64 `json:"timing"`           // seconds: "total" and one per stage
}

// Method is one kind of canary, over all its audits.
type Method struct {
	Name         string   `json:"name"`
	AUC          Summary  `json:"auc"`
	TPR          Summary  `json:"tpr_at_fpr_0.05"`
	LossIn       Summary  `json:"loss_in"`  // mean loss of included canaries
	LossOut      Summary  `json:"loss_out"` // mean loss of the others
	TestAccuracy *Summary `json:"test_accuracy,omitempty"`
	Bounds       []Bound  `json:"bounds,omitempty"`
	Runs         []Run    `json:"runs"`
}

// Bound is one kind of lower bound on ε, over all audits of a method. Each
// audit is a game of its own, and each value of Epsilon holds for itself at
// the given confidence. The mean is a mean of bounds: it describes the audits,
// and is no bound that holds with that confidence. Its interval is that of the
// mean of bounds, and none of ε.
type Bound struct {
	Estimator  string  `json:"estimator"`  // e.g. "steinke"
	Scope      string  `json:"scope"`      // for which mechanisms it holds: "model-free", "family:…" or "estimate"
	Sound      bool    `json:"sound"`      // whether it may be quoted without naming a model
	Rule       string  `json:"rule"`       // which canaries are guessed: "fixed" in advance, or "paper", chosen by the result
	Delta      float64 `json:"delta"`      // of the (ε, δ)
	Confidence float64 `json:"confidence"` // of each value
	Epsilon    Summary `json:"epsilon"`
}

// Paired compares a method with another one, audit by audit: at the same set and
// audit number all methods share the coins and the training's randomness, so
// that the differences, method minus baseline, vary less than the figures.
type Paired struct {
	Method   string  `json:"method"`
	Baseline string  `json:"baseline"`
	AUC      Summary `json:"auc"` // of the differences; intervals clustered by set, in [-1, 1]
	TPR      Summary `json:"tpr_at_fpr_0.05"`
	WinsAUC  int     `json:"wins_auc"` // audits in which the method's is larger
	WinsTPR  int     `json:"wins_tpr"`
	Runs     int     `json:"runs"` // audits compared
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
