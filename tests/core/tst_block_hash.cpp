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

// hashlib.blake2b(encoding, digest_size=16) of: 8-byte 0 (root), count, tokens as 4 bytes, key
// length, key; then with 8-byte 1 and the first digest in front. All little-endian.
void TestBlockHash::isBlake2b128OfTheDocumentedEncoding() {
  const TokenId tokens[] = {1, 2, 49151, 7};
  const BlockHash root = hash_block(nullptr, tokens, "salt");
  const BlockHash next = hash_block(&root, tokens, "");
  const auto hex = [](const BlockHash& hash) {
    return QByteArray(reinterpret_cast<const char*>(hash.data()), 16).toHex();
  };
  QCOMPARE(hex(root), QByteArray("5431e759d276e88c736d182ed01857d9"));
  QCOMPARE(hex(next), QByteArray("cee5f30bc9fa804ba3bd49d29ef5d621"));
}

void TestBlockHash::dependsOnEveryPart() {
  const std::vector<TokenId> ab = {1, 2}, ba = {2, 1}, a = {1};
  const BlockHash parent = hash_block(nullptr, ab, "");
  std::set<BlockHash> seen;
  for (const auto& tokens : {ab, ba, a})
    for (const char* key : {"", "x", "xy"})
      for (const BlockHash* from : {static_cast<const BlockHash*>(nullptr), &parent})
        seen.insert(hash_block(from, tokens, key));
  QCOMPARE(seen.size(), std::size_t{18});
  std::vector<TokenId> many(1000, 5);
  const BlockHash full = hash_block(nullptr, many, "");
  many[700] = 6;
  QVERIFY(full != hash_block(nullptr, many, ""));
}

QUIRE_TEST(TestBlockHash)
#include "tst_block_hash.moc"
