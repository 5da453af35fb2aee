// Package train fits models: SGD with momentum, weight decay, schedules and a
// running average of the weights, and DP-SGD, which samples examples by
// independent coins, clips their gradients and adds noise.
//
// A run is a function of its seed, configuration and data: the same run gives
// the same bytes, whatever the number of threads, the size of its microbatches
// and the number of times that it was stopped and resumed.
package train
