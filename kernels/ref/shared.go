package ref

// Per says which elements i of a [Batch, Rows, Cols] array share an element
// j(i) of a smaller one: with ByCol the elements of a column of one batch,
// otherwise those of a row.
type Per struct {
	Batch, Rows, Cols int
	ByCol             bool
}

// Len is the number of elements of the larger array.
func (p Per) Len() int { return p.Batch * p.Rows * p.Cols }

// Small is the number of elements of the smaller array.
func (p Per) Small() int {
	if p.ByCol {
		return p.Batch * p.Cols
	}
	return p.Batch * p.Rows
}

// each calls f with every i, in ascending order, and its j:
//
//	j = batch Rows + row, or batch Cols + col with ByCol
func (p Per) each(f func(i, j int)) {
	i := 0
	for batch := range p.Batch {
		for row := range p.Rows {
			for col := range p.Cols {
				if p.ByCol {
					f(i, batch*p.Cols+col)
				} else {
					f(i, batch*p.Rows+row)
				}
				i++
			}
		}
	}
}

// ScaleBy: dst[i] (+)= x[i] s[j(i)]. dst may be x unless acc.
func ScaleBy(dst, x, s []float64, p Per, acc bool) {
	p.each(func(i, j int) { put(&dst[i], x[i]*s[j], acc) })
}

// Shift: dst[i] = x[i] + alpha s[j(i)]. dst may be x.
func Shift(dst, x, s []float64, alpha float64, p Per) {
	p.each(func(i, j int) { dst[i] = x[i] + alpha*s[j] })
}

// Spread: dst[i] = s[j(i)].
func Spread(dst, s []float64, p Per) {
	p.each(func(i, j int) { dst[i] = s[j] })
}
