#include <random>

#include "engine/text/text_output.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

struct Delivered {
  std::string text;
  int matched = -1;
};

// Feeds `text` in pieces of the given sizes until a stop matches.
Delivered feed(const std::vector<std::string>& stops, const std::string& text,
               const std::vector<std::size_t>& cuts) {
  StopMatcher matcher(stops);
  Delivered delivered;
  std::size_t at = 0;
  for (std::size_t i = 0; at < text.size(); ++i) {
    const std::size_t n =
        std::min(text.size() - at, cuts.empty() ? text.size() : cuts[i % cuts.size()]);
    const auto outcome = matcher.push(text.substr(at, n), true);
    delivered.text += outcome.text;
    at += n;
    if (outcome.matched >= 0) {
      delivered.matched = outcome.matched;
      return delivered;
    }
  }
  delivered.text += matcher.finish();
  return delivered;
}

}  // namespace

class TestStopMatcher : public QObject {
  Q_OBJECT
 private slots:
  void theEarliestStopInTheTextEndsIt() {
    const auto result = feed({"END", "\n\n"}, "one\n\ntwo END", {});
    QCOMPARE(result.text, std::string("one"));
    QCOMPARE(result.matched, 1);
  }

  void aPossibleStartIsHeldBackAndDeliveredWhenItIsNone() {
    StopMatcher matcher({"stop"});
    QCOMPARE(matcher.push("a st", true).text, std::string("a "));
    QCOMPARE(matcher.push("ar", true).text, std::string("star"));
    QCOMPARE(matcher.push("s", true).text, std::string(""));
    QCOMPARE(matcher.finish(), std::string("s"));
  }

  void nothingIsLookedForWhileDisarmed() {
    StopMatcher matcher({"x"});
    const auto outcome = matcher.push("axb", false);
    QCOMPARE(outcome.text, std::string("axb"));
    QCOMPARE(outcome.matched, -1);
  }

  void emptyStopsAreIgnored() { QCOMPARE(feed({""}, "abc", {}).text, std::string("abc")); }

  // Without one stop being inside another, what is delivered does not depend on how the text was
  // cut.
  void deliveryDoesNotDependOnTheCuts() {
    std::mt19937 random(7);
    const std::vector<std::string> stops = {"aab", "bba", "cc"};
    for (int round = 0; round < 500; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) text += static_cast<char>('a' + random() % 3);
      const auto whole = feed(stops, text, {1});
      std::vector<std::size_t> cuts;
      for (int i = 0; i < 5; ++i) cuts.push_back(1 + random() % 3);
      const auto pieces = feed(stops, text, cuts);
      QVERIFY(text.starts_with(whole.text));
      // A longer piece may hold two matches; the earliest in the text wins, as it does byte by
      // byte.
      QCOMPARE(pieces.text.size() <= whole.text.size() + 3, true);
      for (const auto& stop : stops) QCOMPARE(pieces.text.find(stop), std::string::npos);
      for (const auto& stop : stops) QCOMPARE(whole.text.find(stop), std::string::npos);
    }
  }
};

QUIRE_TEST(TestStopMatcher)
#include "tst_text_output.moc"
