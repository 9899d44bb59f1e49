#include "engine/text/chat_template.h"

#include <thread>

#include "tests/support/test_main.h"

using namespace quire;

namespace {

std::unique_ptr<ChatTemplate> compiled(const std::string& source, TemplateBudget budget = {}) {
  auto result = compile_chat_template(source, budget);
  if (!result.ok()) qFatal("%s", result.error().message.c_str());
  return std::move(result).value();
}

// The prompt with the caller's bytes in brackets: "<|im_start|>[user]\n".
std::string marked(const RenderedPrompt& prompt) {
  std::string out;
  std::size_t position = 0;
  const auto caller = [&](std::size_t end) {
    if (end > position) out += "[" + prompt.text.substr(position, end - position) + "]";
  };
  for (const ByteRange& range : prompt.template_ranges) {
    caller(range.begin);
    out += prompt.text.substr(range.begin, range.end - range.begin);
    position = range.end;
  }
  caller(prompt.text.size());
  return out;
}

std::string error_of(const std::string& source, const std::string& messages = "[]",
                     TemplateBudget budget = {}) {
  const auto result = compile_chat_template(source, budget);
  if (!result.ok()) return result.error().message;
  const auto prompt = (*result)->render_json(messages, {});
  return prompt.ok() ? "no error: " + prompt->text.substr(0, 100) : prompt.error().message;
}

void expect_contains(const std::string& text, const std::string& part) {
  QVERIFY2(text.find(part) != std::string::npos, (text + "\nlacks: " + part).c_str());
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

class TestChatTemplate : public QObject {
  Q_OBJECT

 private slots:
  void defaultTemplateMarksTurns();
  void originFollowsBytes_data();
  void originFollowsBytes();
  void beginAndEndTokensCountAsTemplate();
  void extraVariablesAreTheCallers();
  void reservedNamesAreRefused_data();
  void reservedNamesAreRefused();
  void raisedTextIsTheError();
  void errorsNameLineAndConstruct_data();
  void errorsNameLineAndConstruct();
  void budgetsEndRunawayTemplates_data();
  void budgetsEndRunawayTemplates();
  void deepNestingIsRefused_data();
  void deepNestingIsRefused();
  void brokenJsonIsRefused_data();
  void brokenJsonIsRefused();
  void invalidUtf8InMessagesIsKept();
  void rendersFromSeveralThreads();
};

void TestChatTemplate::defaultTemplateMarksTurns() {
  const auto chat = compiled(std::string(default_chat_template()));
  const auto prompt = chat->render({{"system", "Be kind.", ""}, {"user", "<|im_end|>", ""}}, {});
  QVERIFY(prompt.ok());
  QCOMPARE(
      marked(*prompt),
      "<|im_start|>[system]\n[Be kind.]<|im_end|>\n<|im_start|>[user]\n[<|im_end|>]<|im_end|>\n"
      "<|im_start|>assistant\n");
  ChatTemplateOptions options;
  options.add_generation_prompt = false;
  QCOMPARE(chat->render({}, options)->text, std::string());
}

void TestChatTemplate::originFollowsBytes_data() {
  QTest::addColumn<QString>("source");
  QTest::addColumn<QString>("expected");
  const auto row = [](const char* source, const char* expected) {
    QTest::newRow(source) << source << expected;
  };
  // c is "ab,cd "; the caller's bytes are in brackets.
  row("T{{ c }}T", "T[ab,cd ]T");
  row("{{ 'T' + c + 'T' }}", "T[ab,cd ]T");
  row("{{ c | trim ~ 'T' }}", "[ab,cd]T");
  row("{{ c | upper }}{{ 'x' | upper }}", "[AB,CD ]X");
  row("{{ c[1:3] ~ 'TUV'[::-1] }}", "[b,]VUT");
  row("{{ c.split(',') | join('T') }}", "[ab]T[cd ]");
  row("{{ c.replace(',', 'T') }}", "[ab]T[cd ]");
  row("{{ 'TaT'.replace('a', c) }}", "T[ab,cd ]T");
  row("{{ '%s-%d' % (c, 5) }}", "[ab,cd ]-[5]");
  row("{{ 'x{}y'.format(c) }}", "x[ab,cd ]y");
  row("{{ c | tojson }}", "[\"ab,cd \"]");
  row("{{ {'T': 'T'} | tojson }}", "[{\"T\": \"T\"}]");
  row("{{ [c, 'T'] }}", "[['ab,cd ', 'T']]");
  row("{{ ['T', c] | join('-') }}", "T-[ab,cd ]");
  row("{% set x %}T{{ c }}{% endset %}{{ x }}{{ x | length }}", "T[ab,cd 7]");
  row("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(c) }}{{ m('T') }}", "<[ab,cd ]><T>");
  row("{% set n = namespace(x='T') %}{% set n.x = n.x ~ c %}{{ n.x }}", "T[ab,cd ]");
  row("{% filter replace(',', 'T') %}{{ c }}U{% endfilter %}", "[ab]T[cd ]U");
  row("{% for k in messages[0] %}{{ k }};{% endfor %}", "[role];[content];");
  row("{% for k in {'T': 1} %}{{ k }}{% endfor %}", "T");
  row("{{ c | replace('ab,cd ', '<|im_end|>') }}", "<|im_end|>");
  row("{{ c | indent(2, true) }}", "[  ab,cd ]");
  row("{{ 'T' | center(3) }}", "[ ]T[ ]");
  row("{{ c or 'T' }}{{ '' or 'T' }}", "[ab,cd ]T");
}

void TestChatTemplate::originFollowsBytes() {
  QFETCH(QString, source);
  QFETCH(QString, expected);
  const auto chat = compiled("{% set c = messages[0].content %}" + source.toStdString());
  const auto prompt = chat->render_json(R"([{"role": "user", "content": "ab,cd "}])", {});
  QVERIFY2(prompt.ok(), prompt.ok() ? "" : prompt.error().message.c_str());
  QCOMPARE(QString::fromStdString(marked(*prompt)), expected);
}

void TestChatTemplate::beginAndEndTokensCountAsTemplate() {
  ChatTemplateOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  const auto prompt = compiled("{{ bos_token }}{{ messages[0].content + eos_token }}")
                          ->render({{"user", "<s>", ""}}, options);
  QCOMPARE(marked(*prompt), "<s>[<s>]</s>");
}

void TestChatTemplate::extraVariablesAreTheCallers() {
  ChatTemplateOptions options;
  options.extra_variables_json = R"({"date": "<|x|>", "tools": [{"name": "f"}], "flag": false})";
  const auto prompt =
      compiled("{{ date }}{{ tools[0].name }}{{ 'no' if flag is false }}")->render({}, options);
  QCOMPARE(marked(*prompt), "[<|x|>f]no");
}

void TestChatTemplate::reservedNamesAreRefused_data() {
  QTest::addColumn<QString>("name");
  for (const char* name : {"messages", "add_generation_prompt", "bos_token", "eos_token",
                           "chat_template", "tokenize", "raise_exception", "strftime_now"}) {
    QTest::newRow(name) << name;
  }
}

void TestChatTemplate::reservedNamesAreRefused() {
  QFETCH(QString, name);
  ChatTemplateOptions options;
  options.extra_variables_json = "{\"" + name.toStdString() + "\": 1}";
  const auto prompt = compiled("x")->render({}, options);
  QVERIFY(!prompt.ok());
  QVERIFY(prompt.error().code == ErrorCode::kInvalidArgument);
  expect_contains(prompt.error().message, "'" + name.toStdString() + "'");
}

void TestChatTemplate::raisedTextIsTheError() {
  QCOMPARE(error_of("{{ raise_exception('Roles must ' ~ 'alternate!') }}"),
           std::string("Roles must alternate!"));
}

void TestChatTemplate::errorsNameLineAndConstruct_data() {
  QTest::addColumn<QString>("source");
  QTest::addColumn<QString>("line");
  QTest::addColumn<QString>("construct");
  const auto row = [](const char* source, const char* line, const char* construct) {
    QTest::newRow(source) << source << line << construct;
  };
  row("a\n{% include 'x' %}", "line 2", "'include'");
  row("a\n\n{{ 1 | nosuch }}", "line 3", "'nosuch'");
  row("{{ 1 is nosuch }}", "line 1", "'nosuch'");
  row("a\n{% if x %}\nb", "line 3", "'if' has no end");
  row("\n{{ missing.name }}", "line 2", "'missing' is undefined");
  row("{% for m in messages %}\n{{ m.a.b }}{% endfor %}\n{{ nope() }}", "line 3", "'nope'");
  row("\n\n{{ 'x }}", "line 3", "closing quote");
  row("{{ [].append(1) }}", "line 1", "'append'");
  row("{{ 1 + 'a' }}", "line 1", "a int and a string");
}

void TestChatTemplate::errorsNameLineAndConstruct() {
  QFETCH(QString, source);
  QFETCH(QString, line);
  QFETCH(QString, construct);
  const std::string message = error_of(source.toStdString());
  expect_contains(message, line.toStdString());
  expect_contains(message, construct.toStdString());
}

void TestChatTemplate::budgetsEndRunawayTemplates_data() {
  QTest::addColumn<QString>("source");
  const auto row = [](const char* name, const char* source) { QTest::newRow(name) << source; };
  row("a huge range", "{% for i in range(10**9) %}{% endfor %}");
  row("nested loops",
      "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}");
  row("doubling text",
      "{% set n = namespace(x='xx') %}{% for i in range(99) %}{% set n.x = n.x * 2 %}{% endfor %}");
  row("one long repeat", "{{ 'x' * 10**12 }}");
  row("doubling lists",
      "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor "
      "%}");
  row("endless macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  row("endless recursion of loops", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  row("nesting lists",
      "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}");
  row("shared lists compared",
      "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
      "{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}");
  row("shared lists printed",
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
      "{{ n.x }}");
  row("shared lists as JSON",
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
      "{{ n.x | tojson }}");
  row("a wide format", "{{ '%999999999d' % 1 }}");
  row("a wide brace format", "{{ '{:999999999}'.format(1) }}");
  row("a wide center", "{{ 'x' | center(10**15) }}");
  row("replacing the empty text", "{% set x = 'a' * 1000000 %}{{ x | replace('', x) }}");
  row("joining", "{{ ('a' * 100000) | list | join('b' * 100000) }}");
  row("a long power", "{{ 9 ** 9 ** 9 ** 9 }}");
  row("a long output", "{% set x = 'a' * 9999999 %}{% for i in range(99) %}{{ x }}{% endfor %}");
}

void TestChatTemplate::budgetsEndRunawayTemplates() {
  QFETCH(QString, source);
  TemplateBudget budget;
  budget.max_steps = 200'000;
  budget.max_output_bytes = 4u << 20;
  const std::string message = error_of(source.toStdString(), "[]", budget);
  QVERIFY2(message.find("no error") == std::string::npos, message.c_str());
}

void TestChatTemplate::deepNestingIsRefused_data() {
  QTest::addColumn<QString>("source");
  const auto row = [](const char* name, const std::string& source) {
    QTest::newRow(name) << QString::fromStdString(source);
  };
  const int n = 30'000;
  row("parentheses", "{{ " + repeated("(", n) + "1" + repeated(")", n) + " }}");
  row("lists", "{{ " + repeated("[", n) + repeated("]", n) + " }}");
  row("dicts", "{{ " + repeated("{1:", n) + "1" + repeated("}", n) + " }}");
  row("not", "{{ " + repeated("not ", n) + "1 }}");
  row("minus", "{{ " + repeated("-", n) + "1 }}");
  row("ternaries", "{{ " + repeated("1 if 1 else ", n) + "1 }}");
  row("ternaries on the left", "{{ 1" + repeated(" if 1", n) + " }}");
  row("attributes", "{{ x" + repeated(".a", n) + " }}");
  row("calls", "{{ x" + repeated("()", n) + " }}");
  row("filters", "{{ x" + repeated("|trim", n) + " }}");
  row("set filters", "{% set x" + repeated("|trim", n) + " %}{% endset %}");
  row("subscripts", "{{ " + repeated("x[", n) + "1" + repeated("]", n) + " }}");
  row("blocks", repeated("{% if 1 %}", n) + repeated("{% endif %}", n));
  row("loops", repeated("{% for x in y %}", n));
  row("targets", "{% for " + repeated("(", n) + "x" + repeated(")", n) + " in y %}{% endfor %}");
}

void TestChatTemplate::deepNestingIsRefused() {
  QFETCH(QString, source);
  expect_contains(error_of(source.toStdString()), "nested too deeply");
}

void TestChatTemplate::brokenJsonIsRefused_data() {
  QTest::addColumn<QString>("json");
  for (const char* json :
       {"", "{}", "1", "[", "[1,]", "[{\"a\": \"\\ud800\"}]", "[1e999]", "[\"\x01\"]"}) {
    QTest::newRow(json) << json;
  }
  QTest::newRow("deep") << QString::fromStdString(repeated("[", 100'000));
}

void TestChatTemplate::brokenJsonIsRefused() {
  QFETCH(QString, json);
  expect_contains(error_of("x", json.toStdString()), "The messages ");
}

void TestChatTemplate::invalidUtf8InMessagesIsKept() {
  const std::string broken = "a\xff\xc3(\xe2\x82";
  const auto chat = compiled(
      "{% for m in messages %}{{ m.content | upper }}|{{ m.content[::-1][::-1] }}|"
      "{{ m.content | trim | length }}|{{ m.content | tojson | length }}{% endfor %}");
  const auto prompt = chat->render({{"user", broken, ""}}, {});
  QVERIFY(prompt.ok());
  QCOMPARE(prompt->text, "A\xff\xc3(\xe2\x82|" + broken + "|6|8");
}

void TestChatTemplate::rendersFromSeveralThreads() {
  const auto chat = compiled(std::string(default_chat_template()));
  const std::string expected = chat->render({{"user", "hi", ""}}, {})->text;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j)
        wrong += chat->render({{"user", "hi", ""}}, {})->text != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  QCOMPARE(wrong.load(), 0);
}

QUIRE_TEST(TestChatTemplate)
#include "tst_chat_template.moc"
