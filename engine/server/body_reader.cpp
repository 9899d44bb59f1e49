#include "engine/server/body_reader.h"

#include <algorithm>
#include <charconv>

namespace quire {
namespace {

constexpr std::size_t kReadAhead = 64 * 1024;
constexpr std::size_t kMaxChunkLine = 1024;  // size, extensions, or one trailer
constexpr int kMaxTrailers = 32;

ApiError bad_chunk() {
  return {.status = 400, .message = "The chunked body is malformed."};
}

// The hexadecimal size before any extension.
std::optional<std::size_t> chunk_size(std::string_view line) {
  line = line.substr(0, line.find(';'));
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  std::size_t size = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  if (parsed.ec != std::errc() || parsed.ptr != line.data() + line.size()) return std::nullopt;
  return size;
}

}  // namespace

bool BodyBudget::take(std::size_t bytes) {
  if (used_.fetch_add(bytes) + bytes <= limit_) return true;
  used_ -= bytes;
  return false;
}

BodyReader::BodyReader(ClientSocket& socket, const ServerLimits& limits, BodyBudget& budget)
    : socket_(socket), limits_(limits), budget_(budget), deadline_(deadline_in(limits.body_s)) {}

BodyReader::~BodyReader() {
  budget_.give_back(taken_);
}

std::optional<ApiError> BodyReader::read(const BodyFraming& framing, std::string& body) {
  return framing.chunked ? read_chunks(body) : read_exactly(framing.length, body);
}

std::optional<ApiError> BodyReader::more() {
  switch (socket_.read_some(kReadAhead, deadline_)) {
    case ClientSocket::ReadResult::kData:
      return std::nullopt;
    case ClientSocket::ReadResult::kClosed:
      return ApiError{.status = 0};
    case ClientSocket::ReadResult::kTimeout:
      break;
  }
  return ApiError{.status = 408, .message = "The body took too long to arrive."};
}

std::optional<ApiError> BodyReader::read_exactly(std::size_t count, std::string& body) {
  while (count > 0) {
    if (socket_.buffered().empty()) {
      if (auto failed = more()) return failed;
    }
    const auto part = socket_.buffered().substr(0, count);
    if (!budget_.take(part.size())) {
      return ApiError{.status = 503,
                      .message = "Too many large requests at once; try again.",
                      .retry_after_s = 1};
    }
    taken_ += part.size();
    body.append(part);
    count -= part.size();
    socket_.consume(part.size());
  }
  return std::nullopt;
}

std::optional<ApiError> BodyReader::read_line(std::string& line) {
  while (true) {
    const auto data = socket_.buffered();
    const auto end = data.find('\n');
    if (end != std::string_view::npos && end <= kMaxChunkLine) {
      if (end == 0 || data[end - 1] != '\r') return bad_chunk();
      line = data.substr(0, end - 1);
      socket_.consume(end + 1);
      return std::nullopt;
    }
    if (data.size() > kMaxChunkLine) return bad_chunk();
    if (auto failed = more()) return failed;
  }
}

std::optional<ApiError> BodyReader::read_chunks(std::string& body) {
  std::string line;
  while (true) {
    if (auto failed = read_line(line)) return failed;
    const auto size = chunk_size(line);
    if (!size) return bad_chunk();
    if (*size == 0) break;
    if (*size > limits_.max_body_bytes - body.size()) {
      return ApiError{.status = 413,
                      .message = "The body is larger than the " +
                                 std::to_string(limits_.max_body_bytes) + " bytes accepted here."};
    }
    if (auto failed = read_exactly(*size, body)) return failed;
    if (auto failed = read_line(line)) return failed;
    if (!line.empty()) return bad_chunk();
  }
  // Trailers are read past and never become headers.
  for (int i = 0; i <= kMaxTrailers; ++i) {
    if (auto failed = read_line(line)) return failed;
    if (line.empty()) return std::nullopt;
  }
  return bad_chunk();
}

}  // namespace quire
