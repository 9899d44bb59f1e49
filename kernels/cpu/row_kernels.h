#pragma once

// Operations on single rows, written once over Lanes. Include after a lanes_*.h.
namespace quire::cpu {
namespace {

// e^x within 2 units in the last place; 0 below -87.33 and infinity above 88.37, where 2^n stops
// being a normal float. Range reduction by ln 2 in two parts and the polynomial of Cephes' expf.
inline Lanes exp_lanes(const Lanes& x) {
  const Lanes magic = Lanes::set(12582912.0f);  // 1.5 * 2^23
  const Lanes shifted = fma(x, Lanes::set(1.44269504088896341f), magic);
  const Lanes n = shifted - magic;
  const Lanes r = fnma(n, Lanes::set(-2.12194440e-4f), fnma(n, Lanes::set(0.693359375f), x));
  Lanes p = Lanes::set(1.9875691500e-4f);
  p = fma(p, r, Lanes::set(1.3981999507e-3f));
  p = fma(p, r, Lanes::set(8.3334519073e-3f));
  p = fma(p, r, Lanes::set(4.1665795894e-2f));
  p = fma(p, r, Lanes::set(1.6666665459e-1f));
  p = fma(p, r, Lanes::set(5.0000001201e-1f));
  const Lanes y = (fma(p, r * r, r) + Lanes::set(1.0f)) * power_of_two(shifted);
  const Lanes lowest = Lanes::set(-87.33f), highest = Lanes::set(88.37f);
  return select_less(x, lowest, Lanes::zero(),
                     select_less(highest, x, Lanes::set(__builtin_inff()), y));
}

inline void exp_row(const float* x, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) exp_lanes(Lanes::load(x + i)).store(out + i);
}

// The first `count` < 16 lanes from p, the rest zero.
inline Lanes load_some(const float* p, std::int64_t count) {
  float lanes[16] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return Lanes::load(lanes);
}

inline void store_some(const Lanes& x, float* p, std::int64_t count) {
  float lanes[16];
  x.store(lanes);
  for (std::int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

inline void rms_norm_row(const float* x, const float* weight, float eps, std::int64_t count,
                         float* out) {
  const std::int64_t whole = count / 16 * 16;
  Lanes squares = Lanes::zero();
  for (std::int64_t i = 0; i < whole; i += 16) {
    const Lanes v = Lanes::load(x + i);
    squares = fma(v, v, squares);
  }
  const Lanes last = load_some(x + whole, count - whole);
  squares = fma(last, last, squares);
  const float mean = squares.sum() / static_cast<float>(count);
  const Lanes scale = Lanes::set(1.0f / __builtin_sqrtf(mean + eps));
  for (std::int64_t i = 0; i < whole; i += 16)
    (Lanes::load(x + i) * scale * Lanes::load(weight + i)).store(out + i);
  const Lanes last_weight = load_some(weight + whole, count - whole);
  store_some(last * scale * last_weight, out + whole, count - whole);
}

inline float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

// A block with a value that is not finite gets a scale of NaN, so the damage shows in every result
// it takes part in.
inline void quantise_block(const float* x, std::int64_t block, const QuantisedRow& out) {
  const Lanes a = Lanes::load(x), b = Lanes::load(x + 16);
  const std::uint32_t bits = largest_magnitude(a, b);
  std::int8_t* q = out.q + block * kBlock;
  const float amax = float_of(bits);
  const bool finite = bits < 0x7f800000u;
  if (!finite || amax < 1e-30f) {
    for (int i = 0; i < kBlock; ++i) q[i] = 0;
    out.scale[block] = out.scaled_sum[block] = finite ? 0.0f : __builtin_nanf("");
    out.sums[block][0] = out.sums[block][1] = 0;
    return;
  }
  const Lanes magic = Lanes::set(12582912.0f), inverse = Lanes::set(127.0f / amax);
  const Ints qa = rounded(fma(a, inverse, magic)), qb = rounded(fma(b, inverse, magic));
  store_bytes(qa, q);
  store_bytes(qb, q + 16);
  const std::int32_t sum_a = qa.sum(), sum_b = qb.sum();
  out.scale[block] = amax / 127.0f;
  out.scaled_sum[block] = out.scale[block] * static_cast<float>(sum_a + sum_b);
  out.sums[block][0] = static_cast<std::int16_t>(sum_a);
  out.sums[block][1] = static_cast<std::int16_t>(sum_b);
}

inline void quantise_row(const float* x, std::int64_t cols, const QuantisedRow& out) {
  for (std::int64_t block = 0; block < cols / kBlock; ++block)
    quantise_block(x + block * kBlock, block, out);
}

inline void round_row(const float* x, std::int64_t cols, float* rounded) {
  const std::int64_t whole = cols / 16 * 16;
  for (std::int64_t i = 0; i < whole; i += 16)
    rounded_to_bf16(Lanes::load(x + i)).store(rounded + i);
  store_some(rounded_to_bf16(load_some(x + whole, cols - whole)), rounded + whole, cols - whole);
}

inline void silu_mul_row(const float* gate, const float* up, float* out, std::int64_t count) {
  const Lanes one = Lanes::set(1.0f);
  for (std::int64_t i = 0; i < count; i += 16) {
    const Lanes g = Lanes::load(gate + i);
    (g / (one + exp_lanes(Lanes::zero() - g)) * Lanes::load(up + i)).store(out + i);
  }
}

// tanh(y) = 1 - 2 / (e^2y + 1)
inline void gelu_mul_row(const float* gate, const float* up, float* out, std::int64_t count) {
  const Lanes one = Lanes::set(1.0f), two = Lanes::set(2.0f), half = Lanes::set(0.5f);
  const Lanes cubic = Lanes::set(0.044715f), factor = Lanes::set(0.7978845608028654f);
  for (std::int64_t i = 0; i < count; i += 16) {
    const Lanes g = Lanes::load(gate + i);
    const Lanes inner = factor * fma(cubic * g * g, g, g);
    const Lanes tanh = one - two / (exp_lanes(two * inner) + one);
    (half * g * (one + tanh) * Lanes::load(up + i)).store(out + i);
  }
}

// As many chains as fit the registers, which is enough to keep the multipliers busy.
inline float burn_fma_lanes(std::int64_t rounds) {
  const Lanes factor = Lanes::set(0.999f), term = Lanes::set(0.001f);
  Lanes acc[kRowsAtOnce];
  for (int i = 0; i < kRowsAtOnce; ++i) acc[i] = Lanes::set(static_cast<float>(i));
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kRowsAtOnce; ++i) acc[i] = fma(acc[i], factor, term);
  Lanes total = Lanes::zero();
  for (int i = 0; i < kRowsAtOnce; ++i) total = total + acc[i];
  return total.sum();
}

inline float read_sum_row(const float* data, std::int64_t count) {
  Lanes acc[4] = {Lanes::zero(), Lanes::zero(), Lanes::zero(), Lanes::zero()};
  for (std::int64_t i = 0; i < count; i += 64)
    for (int k = 0; k < 4; ++k) acc[k] = acc[k] + Lanes::load(data + i + 16 * k);
  return (acc[0] + acc[1] + acc[2] + acc[3]).sum();
}

}  // namespace
}  // namespace quire::cpu
