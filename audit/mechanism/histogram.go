package mechanism

// Histogram is the vote histogram that Private Evolution releases of its users
// (arXiv:2609.13499, section 2): each record votes for the K candidates of the bank
// that are nearest to it, a user's votes are averaged over records and clipped,
// and the sum over the users who take part is released with noise,
//
//	Y = Σ_u b_u v_u + N(0, (Noise·Clip)² I),  v_u = h_u min(1, Clip/‖h_u‖),
//
// with b_u independent coins of probability Rate.
type Histogram struct {
	Slots int     // p, candidates in the bank
	K     int     // votes of a record
	Cap   int     // m, records of a user that vote
	Clip  float64 // C, largest L2 norm of a user's vector over all slots
	Noise float64 // σ, noise multiplier
	Rate  float64 // q, probability that a user takes part
}
