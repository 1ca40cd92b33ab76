// Parts of the network that are many small operations in plain torch, each in one call, without gradients.

#include "characters.h"
#include "network.h"
#include "pairing.h"
#include "sequence.h"

using relatum::bfloat16;

// All that compute return zero, one where there is no memory, or two where a number is of something that there is not.
extern "C" {
RELATUM_EXPORT void relatum_use_threads(void* parallel, void* count, void* index) {
    relatum::threads = {reinterpret_cast<decltype(relatum::Threads::parallel)>(parallel),
                        reinterpret_cast<int (*)()>(count), reinterpret_cast<int (*)()>(index)};
}
// Whether tables may be of bfloat16: where the code is for a matrix unit, the system must let this process use it.
RELATUM_EXPORT int relatum_network_allowed() {
#if defined(RELATUM_TILES)
    return relatum::tiles_allowed();
#else
    return 1;
#endif
}
// Whether the products of a sequence can be split.
RELATUM_EXPORT int relatum_network_splits() {
#if defined(RELATUM_TILES)
    return 1;
#else
    return 0;
#endif
}
RELATUM_EXPORT int64_t relatum_dense_packed_bytes(int depth, int width) {
    return relatum::PlainRows::packed_bytes(depth, width);
}
// Packs weights, (width, depth).
RELATUM_EXPORT void relatum_dense_pack(const float* weights, int depth, int width, float* packed) {
    relatum::PlainRows::pack(weights, depth, width, packed);
}
RELATUM_EXPORT int64_t relatum_pairing_packed_bytes(int depth, int width, int dtype) {
    return dtype ? relatum::Pairing<bfloat16>::packed_bytes(depth, width)
                 : relatum::Pairing<float>::packed_bytes(depth, width);
}
// Packs weights of `dtype`, (width, depth), for the second step of a pairing.
RELATUM_EXPORT void relatum_pairing_pack(const void* weights, int depth, int width, int dtype, void* packed) {
    if (dtype)
        relatum::Pairing<bfloat16>::pack(static_cast<const bfloat16*>(weights), depth, width, packed);
    else
        relatum::Pairing<float>::pack(static_cast<const float*>(weights), depth, width, packed);
}
RELATUM_EXPORT int relatum_pairing(const PairingJob* job) {
    return job->dtype ? !relatum::Pairing<bfloat16>(*job).run() : !relatum::Pairing<float>(*job).run();
}
RELATUM_EXPORT int relatum_sequence(const SequenceJob* job) {
    return job->dtype ? relatum::run_sequence<bfloat16>(*job) : relatum::run_sequence<float>(*job);
}
RELATUM_EXPORT int relatum_network(const NetworkJob* job) {
    return job->layers->pairing->dtype ? relatum::Network<bfloat16>(*job).run() : relatum::Network<float>(*job).run();
}
RELATUM_EXPORT int relatum_characters(const CharactersJob* job) {
    relatum::Characters characters(*job);
    return characters.are_known() ? !characters.run() : 2;
}
}
