package stats

import (
	"math"
	"sort"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// oneRunOracle is a row of values at δ = 1e-5 and 95 %: steinke pure and at δ by
// an own port of the paper's appendix D, Mahloujifar's recursion equal to
// jax_privacy's, Xiang's equal to their repository's results.
var oneRunOracle = []struct {
	m, r, v                   int
	pure, steinke, mu, gdp, x float64
}{
	{1000, 1000, 525, 0, 0, 0, 0, 0},
	{1000, 1000, 527, .001986, .001751, 0, 0, .005649},
	{1000, 1000, 530, .013996, .013761, .005908, .015104, .050738},
	{1000, 1000, 540, .054067, .053832, .032540, .100065, .222943},
	{1000, 1000, 550, .094224, .093988, .057264, .185570, .408253},
	{1000, 1000, 560, .134499, .134262, .080454, .268813, .601698},
	{1000, 1000, 575, .195207, .194969, .113089, .389515, .903974},
	{1000, 1000, 600, .297468, .297227, .163850, .583540, 1.435912},
	{1000, 1000, 625, .401585, .401339, .212330, .774586, 2.001432},
	{1000, 1000, 650, .508202, .507950, .260111, .967527, 2.601694},
	{1000, 1000, 700, .732011, .731740, .357211, 1.371979, 3.920272},
	{1000, 1000, 750, .976667, .976367, .460625, 1.818896, 5.435736},
	{1000, 1000, 800, 1.254330, 1.253984, .575553, 2.333243, 7.227619},
	{1000, 1000, 850, 1.586787, 1.586360, .709947, 2.956637, 9.445104},
	{1000, 1000, 900, 2.021233, 2.020646, .880396, 3.779338, 12.414780},
	{1000, 1000, 950, 2.701865, 2.700816, 1.137346, 5.083982, 17.126058},
	{1000, 1000, 990, 4.063206, 4.059247, 1.637182, 7.833052, 26.422716},
	{1000, 1000, 1000, 5.809068, 5.782283, 2.368074, 12.334569, 37.819305},
	{1000, 20, 15, .178140, .165957, .052782, .169784, .220300},
	{1000, 20, 20, 1.822716, 1.791284, .582164, 2.363368, 2.716463},
	{1000, 50, 35, .307468, .302534, .106612, .365276, .459014},
	{1000, 50, 40, .774085, .768340, .273616, 1.022824, 1.249067},
	{1000, 50, 50, 2.784727, 2.756219, .937344, 4.061915, 4.810326},
	{1000, 100, 60, .051915, .049549, .015267, .043523, .075572},
	{1000, 100, 65, .257072, .254647, .097654, .331973, .432688},
	{1000, 100, 70, .471672, .469131, .181680, .653209, .836264},
	{1000, 100, 75, .702214, .699467, .269495, 1.005916, 1.287064},
	{1000, 100, 80, .958392, .955319, .364326, 1.402215, 1.799934},
	{1000, 100, 90, 1.630823, 1.626143, .602504, 2.456405, 3.164458},
	{1000, 100, 100, 3.492965, 3.465376, 1.225533, 5.549028, 6.795966},
	{1000, 200, 130, .366487, .365257, .156182, .553806, .757846},
	{1000, 200, 150, .821396, .819973, .339466, 1.296916, 1.816767},
	{1000, 200, 180, 1.798865, 1.796285, .698201, 2.901243, 4.154387},
	{1000, 500, 300, .251685, .251205, .126161, .438815, .715773},
	{1000, 500, 350, .683260, .682726, .314881, 1.193744, 2.121607},
	{1000, 500, 400, 1.198645, 1.197969, .518753, 2.076807, 3.875004},
	{100, 100, 80, .958392, .958086, .530689, 2.130336, 5.320260},
	{500, 500, 300, .251685, .251445, .147425, .520023, 1.194592},
	{10000, 1000, 750, .976667, .973610, .346382, 1.326113, 1.836613},
	{10000, 10000, 6000, .371706, .371461, .172949, .619003, 1.836917},
	{100000, 10000, 6500, .584373, .581627, .198577, .719881, 1.054602},
}

func TestOneRunTables(t *testing.T) {
	const delta = 1e-5
	for _, o := range oneRunOracle {
		g := Guesses{o.m, o.r, o.v}
		for _, row := range []struct {
			e    Estimator[Guesses]
			want float64
		}{
			{Steinke{}, o.pure}, {Steinke{delta}, o.steinke}, {MahloujifarGDP{delta}, o.gdp}, {XiangIID{delta}, o.x},
		} {
			if got := lowerOf(t, row.e, g, .05); !(math.Abs(got-row.want) <= 1e-4) {
				t.Errorf("%s of %v: %v, want %v", row.e.Name(), g, got, row.want)
			}
		}
		mu, err := largestRejected(maxMu, boundTol, func(mu float64) (bool, error) { return rejectsTradeOff(g, .05, gaussianCurve(mu)), nil })
		if err != nil || !(math.Abs(mu-o.mu) <= 1e-5) {
			t.Errorf("mu of %v: %v, %v, want %v", g, mu, err, o.mu)
		}
	}
}

// TestAccuracyTable: the lower end of the accuracy, one-sided at 95 %.
func TestAccuracyTable(t *testing.T) {
	for v, want := range map[int]float64{
		525: .498496, 527: .500497, 530: .503499, 540: .513513, 550: .523539, 560: .533574, 575: .548647, 600: .573823, 625: .599068, 650: .624385, 700: .675246, 750: .726446, 800: .778049, 850: .830164, 900: .883008, 950: .937137, 990: .983097, 1000: .997009,
	} {
		if got := clopperPearsonLower(v, 1000, .05); !(math.Abs(got-want) <= 1e-6) {
			t.Errorf("%d right: %v, want %v", v, got, want)
		}
	}
}

// TestRecursionTrace: R and H after each step of mu = .5 on 7 of 8 guesses right
// of 10 canaries at .05, seen through the calls of the curve, which is asked about
// R and answers the next H.
func TestRecursionTrace(t *testing.T) {
	want := []struct{ right, wrong float64 }{
		{.035, .005}, {.051173909663, .010391303221}, {.061252961558, .016438734358}, {.065274199268, .020459972068},
		{.066266004127, .022112980166}, {.066403265211, .022524763419}, {.066411424404, .022581877773}, {.066411424404, .022585273773},
	}
	i, curve := 0, gaussianCurve(.5)
	rejected := rejectsTradeOff(Guesses{10, 8, 7}, .05, func(x float64) float64 {
		wrong := curve(x)
		if i+1 >= len(want) || !(math.Abs(x-want[i].right) <= 1e-12) || !(math.Abs(wrong-want[i+1].wrong) <= 1e-12) {
			t.Errorf("step %d: R %v, next H %v", i, x, wrong)
		}
		i++
		return wrong
	})
	if rejected || i != 7 {
		t.Errorf("rejected: %v, after %d steps", rejected, i)
	}
}

// TestOneRunPins: values published with the papers and their code.
func TestOneRunPins(t *testing.T) {
	for _, o := range []struct {
		e     Estimator[Guesses]
		g     Guesses
		alpha float64
		want  float64
		tol   float64
	}{
		{Steinke{1e-4}, Guesses{1000, 100, 75}, .05, .6729846634, 1e-8},
		{Steinke{1e-5}, Guesses{100000, 1510, 1439}, .05, 2.6758510061, 1e-8},
		{MahloujifarGDP{1e-5}, Guesses{1000, 100, 90}, .01, 1.9820861510, 1e-6},
		{MahloujifarGDP{1e-6}, Guesses{1000, 100, 90}, .05, 2.7686827428, 1e-6},
	} {
		if got := lowerOf(t, o.e, o.g, o.alpha); !(math.Abs(got-o.want) <= o.tol) {
			t.Errorf("%s of %v: %v, want %v", o.e.Name(), o.g, got, o.want)
		}
	}
	for _, o := range []struct {
		g                Guesses
		eps, delta, want float64
	}{
		{Guesses{1000, 1000, 600}, .2, 1e-5, .00102324121523},
		{Guesses{1000, 1000, 600}, .3, 1e-5, .0545983169407},
		{Guesses{1000, 100, 75}, .673, 1e-4, .0500060733556},
		{Guesses{1000, 100, 90}, 1.6, 1e-5, .0413696416524},
		{Guesses{1000, 100, 90}, 1.6, 0, .0397481559425},
	} {
		if p, err := (Steinke{o.delta}).PValue(o.g, o.eps); err != nil || !(math.Abs(p/o.want-1) <= 1e-10) {
			t.Errorf("p of %v: %v, %v, want %v", o.g, p, err, o.want)
		}
	}
	for _, o := range []struct {
		g    Guesses
		want float64
	}{{Guesses{10, 8, 7}, .0674242597}, {Guesses{10, 10, 10}, .6779575006}} {
		mu, err := largestRejected(maxMu, boundTol, func(mu float64) (bool, error) { return rejectsTradeOff(o.g, .05, gaussianCurve(mu)), nil })
		if err != nil || !(math.Abs(mu-o.want) <= 1e-8) {
			t.Errorf("mu of %v: %v, %v, want %v", o.g, mu, err, o.want)
		}
	}
}

// hull is the corners of the upper convex hull of an ROC curve in counts, from
// (0, 0) on.
func hull(members, others []float64) (tp, fp []int) {
	type scored struct {
		v      float64
		member bool
	}
	var all []scored
	for _, v := range members {
		all = append(all, scored{v, true})
	}
	for _, v := range others {
		all = append(all, scored{v, false})
	}
	sort.Slice(all, func(a, b int) bool { return all[a].v > all[b].v })
	tp, fp = []int{0}, []int{0}
	t, f := 0, 0
	for i, s := range all {
		if s.member {
			t++
		} else {
			f++
		}
		if i+1 < len(all) && all[i+1].v == s.v {
			continue
		}
		for n := len(tp); n > 1 && (tp[n-1]-tp[n-2])*(f-fp[n-1]) <= (t-tp[n-1])*(fp[n-1]-fp[n-2]); n = len(tp) {
			tp, fp = tp[:n-1], fp[:n-1]
		}
		tp, fp = append(tp, t), append(fp, f)
	}
	return tp, fp
}

// TestOneRunOnHull: the values of jax_privacy's tests. The 10,000 scores of each
// side are quantiles of normals, a shift apart, and the best is taken of all
// thresholds on the hull of their curve, at an equal part of .05 each.
func TestOneRunOnHull(t *testing.T) {
	const n, delta = 10_000, 1e-6
	for _, o := range []struct {
		shift        float64
		corners      int
		steinke, gdp float64
	}{{1, 386, 1.133460, 2.164749}, {2, 374, 2.311945, 4.721806}, {4, 140, 4.395568, 9.133752}} {
		var members, others []float64
		for i := range n {
			z := mathext.NormalQuantile((float64(i) + .5) / n)
			members, others = append(members, z+o.shift), append(others, z)
		}
		tp, fp := hull(members, others)
		if len(tp) != o.corners {
			t.Errorf("shift %v: %d corners, want %d", o.shift, len(tp), o.corners)
		}
		alpha := .05 / float64(len(tp))
		for want, e := range map[float64]Estimator[Guesses]{o.steinke: Steinke{delta}, o.gdp: MahloujifarGDP{delta}} {
			best := 0.0
			for i := 1; i < len(tp); i++ {
				g := Guesses{2 * n, tp[i] + fp[i], tp[i]}
				// The bound takes a search, and whether it exceeds another does not.
				if p, err := e.PValue(g, best); err != nil || !(p < alpha) {
					if err != nil {
						t.Fatal(err)
					}
					continue
				}
				best = lowerOf(t, e, g, alpha)
			}
			if !(math.Abs(best-want) <= 1e-5) {
				t.Errorf("%s, shift %v: %v, want %v", e.Name(), o.shift, best, want)
			}
		}
	}
}
