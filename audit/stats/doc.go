// Package stats turns scores into figures, and figures over several audits
// into summaries with intervals. It is plain Go that a statistician can check
// by hand.
//
// A candidate is called a member when its score is at or above a threshold.
// The thresholds are the distinct scores and +Inf, so candidates that tie are
// always called together, and nothing is interpolated: every figure is one
// that some threshold really attains.
package stats
