#include <set>

#include "engine/core/block_hash.h"
#include "tests/support/test_main.h"

using namespace quire;

class TestBlockHash : public QObject {
  Q_OBJECT
 private slots:
  void isBlake2b128OfTheDocumentedEncoding();
  void dependsOnEveryPart();
};

// hashlib.blake2b(encoding, digest_size=16) of the root: 8-byte 0, key length, key, salt length,
// salt; of a block: 8-byte 1, the parent's digest, count, tokens as 4 bytes. All little-endian.
void TestBlockHash::isBlake2b128OfTheDocumentedEncoding() {
  const TokenId tokens[] = {1, 2, 49151, 7};
  const BlockHash root = hash_root("adapter", "salt");
  const BlockHash first = hash_block(root, tokens);
  const auto hex = [](const BlockHash& hash) {
    return QByteArray(reinterpret_cast<const char*>(hash.data()), 16).toHex();
  };
  QCOMPARE(hex(root), QByteArray("22dad9d3018a0d9df2e6c120de072442"));
  QCOMPARE(hex(first), QByteArray("7d20cb0f97d9fd75d7cab9998d69d062"));
}

void TestBlockHash::dependsOnEveryPart() {
  const std::vector<TokenId> ab = {1, 2}, ba = {2, 1}, a = {1};
  std::set<BlockHash> seen;
  for (const char* key : {"", "x", "xy"})
    for (const char* salt : {"", "x", "xy"}) {
      const BlockHash root = hash_root(key, salt), behind = hash_block(root, ab);
      seen.insert(root);
      for (const auto& tokens : {ab, ba, a})
        for (const BlockHash& parent : {root, behind}) seen.insert(hash_block(parent, tokens));
    }
  QCOMPARE(seen.size(), std::size_t{9 * 7});
  std::vector<TokenId> many(1000, 5);
  const BlockHash root = hash_root({}, {}), full = hash_block(root, many);
  many[700] = 6;
  QVERIFY(full != hash_block(root, many));
}

QUIRE_TEST(TestBlockHash)
#include "tst_block_hash.moc"
