#include "engine/load_config.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

constexpr std::size_t kBlockBytes = 1 << 20;

LoadOptions small() {
  LoadOptions options;
  options.num_blocks = 64;
  return options;
}

EngineConfig configured(const LoadOptions& options, int context = 4096) {
  return make_load_config(options, context, kBlockBytes).value().engine;
}

}  // namespace

class TestLoadConfig : public QObject {
  Q_OBJECT
 private slots:
  void theStrongestSourceOfAChunkWins_data() {
    QTest::addColumn<int>("flag");  // -1: not given
    QTest::addColumn<int>("alias");
    QTest::addColumn<QString>("llama");
    QTest::addColumn<QString>("quire");
    QTest::addColumn<int>("chunk");
    QTest::addColumn<QString>("warning");
    const QString none;
    QTest::newRow("nothing") << -1 << -1 << none << none << -1 << "";
    QTest::newRow("flag beats all") << 100 << -1 << "300"
                                    << "400" << 100 << "";
    QTest::newRow("an explicit default")
        << 2048 << 1024 << none << none << 2048 << "--prefill-chunk-size wins";
    QTest::newRow("flag and alias agree") << 64 << 64 << none << none << 64 << "";
    QTest::newRow("alias") << -1 << 200 << "300"
                           << "400" << 200 << "";
    QTest::newRow("llama") << -1 << -1 << "300"
                           << "400" << 300 << "";
    QTest::newRow("quire") << -1 << -1 << none << "400" << 400 << "";
    QTest::newRow("whole") << -1 << -1 << none << "0" << 0 << "";
    QTest::newRow("unparsable") << -1 << -1 << "lots"
                                << "400" << 400 << "LLAMA_ARG_BATCH";
    QTest::newRow("negative") << -1 << -1 << none << "-1" << -1 << "QUIRE_PREFILL_CHUNK";
    QTest::newRow("trailing text") << -1 << -1 << none << "512k" << -1 << "QUIRE_PREFILL_CHUNK";
    QTest::newRow("huge") << -1 << -1 << none << "99999999999" << -1 << "QUIRE_PREFILL_CHUNK";
    QTest::newRow("empty") << -1 << -1 << "" << none << -1 << "LLAMA_ARG_BATCH";
    QTest::newRow("outvoted") << 100 << -1 << "lots" << none << 100 << "";
  }
  void theStrongestSourceOfAChunkWins() {
    QFETCH(int, flag);
    QFETCH(int, alias);
    QFETCH(QString, llama);
    QFETCH(QString, quire);
    QFETCH(int, chunk);
    QFETCH(QString, warning);
    ChunkSources sources;
    if (flag >= 0) sources.flag = flag;
    if (alias >= 0) sources.alias = alias;
    if (!llama.isNull()) sources.llama_arg_batch = llama.toStdString();
    if (!quire.isNull()) sources.quire_prefill_chunk = quire.toStdString();
    const ChunkChoice choice = choose_prefill_chunk(sources);
    QCOMPARE(choice.chunk.value_or(-1), chunk);
    QCOMPARE(choice.warnings.empty(), warning.isEmpty());
    if (!warning.isEmpty())
      QVERIFY(choice.warnings[0].find(warning.toStdString()) != std::string::npos);
  }

  void anAskedForChunkRaisesTheBudgetAndSaysSo() {
    LoadOptions options = small();
    options.max_num_batched_tokens = 512;
    QCOMPARE(configured(options).max_num_batched_tokens, 512);  // the default pair never does
    QCOMPARE(configured(options).prefill_chunk, PrefillChunkPolicy());
    options.prefill_chunk = PrefillChunkPolicy::resolve(700);
    const LoadConfig raised = make_load_config(options, 4096, kBlockBytes).value();
    QCOMPARE(raised.engine.max_num_batched_tokens, 700);
    QCOMPARE(raised.engine.prefill_chunk, (PrefillChunkPolicy{700, 700}));
    QCOMPARE(raised.notes.size(), std::size_t{1});
    QVERIFY(raised.notes[0].find("from 512 to 700") != std::string::npos);
    options.prefill_chunk = PrefillChunkPolicy::resolve(300);
    QVERIFY(make_load_config(options, 4096, kBlockBytes)->notes.empty());
    options.prefill_chunk = PrefillChunkPolicy::resolve(0);
    QCOMPARE(configured(options).max_num_batched_tokens, 1024);  // 64 blocks of 16
    QCOMPARE(configured(options, 800).max_num_batched_tokens, 800);
  }

  void hostMemoryIsSizedByBlocksThenBytesThenTheMode() {
    LoadOptions options = small();
    QCOMPARE(configured(options).num_swap_blocks, 0);
    options.preemption_mode = PreemptionMode::kAuto;
    const int automatic = configured(options).num_swap_blocks;
    QVERIFY(automatic > 0 && automatic <= 64);
    options.swap_bytes = 5 * kBlockBytes + 7;
    QCOMPARE(configured(options).num_swap_blocks, 5);
    options.num_swap_blocks = 9;
    QCOMPARE(configured(options).num_swap_blocks, 9);
    options.num_swap_blocks = 0;
    options.swap_bytes = 1;
    QCOMPARE(make_load_config(options, 4096, kBlockBytes)->notes.size(), std::size_t{1});
  }

  void everySettingOfSchedulingSurvivesTheWayThereAndBack() {
    EngineConfig config;
    for (const auto& [name, value] : {std::pair{"policy", "lpm"},
                                      {"victim", "cheapest"},
                                      {"preemption_mode", "auto"},
                                      {"prefix_index", "radix"},
                                      {"max_num_seqs", "7"},
                                      {"max_num_batched_tokens", "333"},
                                      {"max_queue", "5"},
                                      {"enable_prefix_caching", "false"},
                                      {"enable_chunked_prefill", "false"},
                                      {"long_prefill_token_threshold", "11"},
                                      {"max_num_partial_prefills", "3"},
                                      {"prefill_chunk_alone", "99"},
                                      {"prefill_chunk_contended", "33"},
                                      {"max_itl_ms", "12.5"},
                                      {"lpm_max_overtakes", "4"}})
      QVERIFY(set_config_field(config, name, value).ok());
    LoadOptions options;
    keep_scheduling(config, options);
    EngineConfig again;
    apply_scheduling(options, again);
    QCOMPARE(again, config);
    LoadOptions untouched;
    keep_scheduling(EngineConfig(), untouched);
    QVERIFY(!untouched.prefill_chunk);  // a default stays one
  }

  void oneLineDescribesScheduling() {
    EngineConfig config;
    QCOMPARE(describe_scheduling(config),
             std::string("prefill chunk 2048 tokens alone, 512 tokens while another sequence "
                         "decodes; policy fcfs, preemption by recompute, prefix index hash"));
    config.prefill_chunk = PrefillChunkPolicy::resolve(0);
    config.max_itl_ms = 40;
    config.num_swap_blocks = 12;
    const std::string text = describe_scheduling(config);
    for (const char* part : {"the whole prompt alone", "pauses up to 40 ms", "12 blocks to swap"})
      QVERIFY2(text.find(part) != std::string::npos, text.c_str());
  }
};

QUIRE_TEST(TestLoadConfig)
#include "tst_load_config.moc"
