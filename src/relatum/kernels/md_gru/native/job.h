// What the caller asks for; `_Job` in cpu.py has the same fields.
#pragma once

#include <cstdint>

extern "C" struct Job {
    // Pointers to values of `dtype`; those that are not needed are null.
    void* projected;  // forward: what was projected, and with `keep` the open gates; backward: its gradient
    const void* gates;
    const void* below;
    const void* recurrent;
    void* states;
    const void* grad;
    void* grad_below;
    void* neighbours;
    // For a whole layer instead of `projected`: rows of the table, and the weights as they are kept.
    const void* inputs;
    const void* input_weight;
    const void* input_bias;
    const void* below_weight;
    const void* state_bias;
    const int32_t* tables;
    int64_t recurrent_direction, recurrent_row;  // strides of all weights of states
    int64_t input_direction, input_row;          // and of the input's
    int32_t n_sentences, n_directions, input_width, width, n_slots, n_lambdas;
    int32_t slots[3];  // see Source
    int32_t reads_up, reads_left;
    int32_t corners[4];  // of a direction: 1 where it starts at the last row, plus 2 where it starts at the last column
    int32_t dtype, keep, n_threads, max_rows, chunk_rows;
};
