package main

import (
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	dp "github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/audit/pe"
)

func peCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pe",
		Short: "Audit Private Evolution: can one user's participation be seen in the vote histogram?",
		Long: `Audit Private Evolution: can one user's participation be seen in the histogram
of votes that it releases (arXiv:2609.13499)?`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(peRunCommand(), peStageCommand("probe"), peStageCommand("lock"))
	return cmd
}

// peSettings are the flags of pe run. Each is a key of the configuration file.
type peSettings struct {
	settings
	// who
	users, userVectors string
	bank, bankVectors  string
	encoder            string
	columns            struct{ id, user, text string }
	minRecords         int
	paraphrases        string
	llm, model         string
	tries              int
	// the mechanism
	mechanism dp.Histogram
	// the audit
	attacks                  []string
	probes, pool             int
	slots                    string
	keepOriginals            bool
	aux, cal, test, eligible int
	protocol                 pe.Protocol
	lockRule                 string
	gate                     float64
	shard                    string
	add                      []string
	stage                    string // "probe", "lock" or "run"
}

func peRunCommand() *cobra.Command {
	s := &peSettings{stage: "run"}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a whole audit: probes, locked thresholds, trials, bounds, report",
		Long: `Run a whole audit of a Private Evolution bank: a few candidates of the bank are
replaced by probes that draw one user's votes together; a threshold is locked on
users whose records are used for nothing else; releases are simulated with and
without the user; and the report says which ε they prove, which they could have
proven, and which the attack and the mechanism really have.

Records come from a JSONL, JSON, CSV or TSV file with the columns user and text;
--encoder embeds them, or .npy or .npz files bring embeddings, row by row; without
both, n-grams are hashed. Until thresholds are locked, in lock.json, no record of a
test user decides anything. Interrupted runs go on with --resume, to the same
bytes. Embed beforehand where that takes long: aviary embed writes files that
--user-embeddings takes.`,
		Example: `  make data-debian
  aviary pe run --users data/debian/users.jsonl --bank data/debian/others.jsonl --out runs/pe
  aviary pe run --users users.jsonl --user-embeddings users.npy --bank bank.csv --bank-embeddings bank.npy --attacks ordinary,exact --out runs/pe
  aviary pe run --resume --out runs/pe`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runPE(cmd, s) },
	}
	s.peFlags(cmd.Flags())
	return cmd
}

// peStageCommand is pe run up to a stage.
func peStageCommand(stage string) *cobra.Command {
	s := &peSettings{stage: stage}
	text := map[string][2]string{
		"probe": {"Design the probes of an audit and print what they catch", `Design the probes of an audit, as pe run would, and print how strongly each attack
sees its canary. Nothing is locked yet; pe lock or pe run, with --resume, goes on.`},
		"lock": {"Design probes and lock thresholds, before any test user counts", `Design probes and lock thresholds, as pe run would, and write lock.json into the
run directory. pe run --resume then goes on; it refuses to if the bank, the users,
the probes or anything else is no longer what was locked.`},
	}[stage]
	cmd := &cobra.Command{
		Use:     stage,
		Short:   text[0],
		Long:    text[1],
		Example: "  aviary pe " + stage + " --users data/debian/users.jsonl --bank data/debian/others.jsonl --out runs/pe",
		Args:    arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPE(cmd, s) },
	}
	s.peFlags(cmd.Flags())
	return cmd
}

func (s *peSettings) peFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	var names []string
	for _, v := range pe.Variants() {
		names = append(names, v.Name)
	}
	f.StringVar(&s.users, "users", "", "`FILE` of users' records: .jsonl, .json, .csv or .tsv, also .gz")
	f.StringVar(&s.userVectors, "user-embeddings", "", "`FILE` of their embeddings, .npy or .npz, row by row")
	f.StringVar(&s.bank, "bank", "", "`FILE` of the bank's candidates; the first --bank-size of it")
	f.StringVar(&s.bankVectors, "bank-embeddings", "", "`FILE` of their embeddings, .npy or .npz")
	f.IntVar(&s.mechanism.Slots, "bank-size", 8192, "candidates in the bank (`P`) (0: all of the file)")
	f.StringVar(&s.encoder, "encoder", "", "folder (`DIR`) of a sentence encoder (none: hashed n-grams); with files of embeddings, the one that made them")
	f.StringVar(&s.columns.user, "user-column", "", "`NAME` of the column with the user (default: user, user_id, client, client_id or author)")
	f.StringVar(&s.columns.text, "text-column", "", "`NAME` of the column with the text (default: text, review, content, sentence or document)")
	f.StringVar(&s.columns.id, "id-column", "", "`NAME` of the column with the record's id (default: id, record_id or candidate_id)")
	f.IntVar(&s.minRecords, "min-records", 32, "leave out users with fewer records than `N`")
	f.IntVar(&s.mechanism.K, "k", 5, "votes of a record (`K`): its K nearest candidates")
	f.IntVar(&s.mechanism.Cap, "cap", 64, "records of a user that vote (`M`), the first of the file")
	f.Float64Var(&s.mechanism.Clip, "clip", .1, "norm (`C`) to which a user's votes are clipped")
	f.Float64Var(&s.mechanism.Noise, "noise-multiplier", 1, "standard deviation (`S`) of the noise in units of the clip norm")
	f.Float64Var(&s.mechanism.Rate, "sample-rate", .1, "probability (`Q`) that a user takes part in a release")
	f.Float64Var(&s.protocol.Delta, "delta", defaultDelta, "the δ (`D`) of the mechanism's (ε, δ)")
	f.StringSliceVar(&s.attacks, "attacks", names, "`NAMES` of attacks")
	f.IntVar(&s.protocol.Canaries, "num-canaries", 5, "canaries of each attack (`N`), of which the best counts")
	f.IntVar(&s.aux, "auxiliary", 500, "users (`N`) that the attacker knows: for probes and moments")
	f.IntVar(&s.cal, "calibration", 500, "users (`N`) on which thresholds are locked")
	f.IntVar(&s.test, "test", 1000, "users (`N`) of the audited releases")
	f.IntVar(&s.eligible, "eligible", 0, "users (`N`) of a release, if not as many as test users: these are then repeated")
	f.IntVar(&s.probes, "probes", 64, "candidates of the bank that probes replace (`R`)")
	f.IntVar(&s.pool, "pool", 512, "texts (`M`) that probes are chosen from")
	f.StringVar(&s.slots, "slots", string(pe.RandomSlots), "`WHICH` candidates are replaced: random or last")
	f.BoolVar(&s.keepOriginals, "keep-originals", false, "leave candidates in their slots until the search puts a probe there")
	f.StringVar(&s.paraphrases, "paraphrases", "", "`FILE` of paraphrases of the canaries' records, .jsonl with canary, source_record and text")
	f.StringVar(&s.llm, "llm", "", "`URL` of an OpenAI-compatible endpoint that paraphrases (its key is AVIARY_LLM_KEY in the environment); without it rules do")
	f.StringVar(&s.model, "model", "", "`NAME` of the language model")
	f.IntVar(&s.tries, "tries", 6, "how often a request to it is sent (`N`)")
	f.IntVar(&s.protocol.Trials, "trials", 1_000_000, "simulated releases in each world, for each canary (`N`)")
	f.Float64Var(&s.protocol.Alpha, "alpha", .05, "probability (`A`) that an attack's bound is too high; each canary has its part")
	f.IntVar(&s.protocol.Bounds, "bounds", 4, "rates that the level pays for (`N`): 4 as in the paper, or 2, which are enough")
	f.StringVar(&s.lockRule, "lock", pe.ExactLock, "`RULE` for thresholds: exact, by the law on calibration users, or empirical, by trials on them")
	f.Float64Var(&s.gate, "gate", math.Inf(1), "exit with 1 if a bound is above `E`")
	f.Uint64Var(&s.seed, "seed", 1, "seed of all randomness (`N`)")
	s.deviceFlags(f)
	f.StringVar(&s.shard, "shard", "1/1", "run the `I/N`-th part of the trials")
	f.StringSliceVar(&s.add, "add", nil, "take in the trials of other shards, `FILES` journal.jsonl in their run directories")
	f.StringVar(&s.out, "out", "", "run directory (`DIR`)")
	f.BoolVar(&s.resume, "resume", false, "finish the run in --out, with its own settings")
	f.BoolVar(&s.dryRun, "dry-run", false, "print what would be done and what it costs, and stop")
	s.talkFlags(f)
	f.Lookup("device").Usage = strings.Replace(f.Lookup("device").Usage, "train on", "route on", 1)
}
