// The checksum of trace records: XXH64, of which the low 32 bits are kept.
//
// Not a CRC: at 4 KiB a record a CRC in portable code takes longer than all the rest of recording a write.
// Source: github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
#pragma once

#include <cstdint>
#include <string_view>

namespace crashcut::fusefs {

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed);

}  // namespace crashcut::fusefs
