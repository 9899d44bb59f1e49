#include "ui/code_highlighter.h"

#include <QHash>
#include <QSet>

#include "ui/theme.h"

namespace quire {

struct CodeLanguage {
  QSet<QString> keywords;
  QSet<QString> types;
  QStringList lineComments;
  QString blockOpen, blockClose;  // multi-line comment
  QString quotes;                 // characters that delimit strings on one line
  QStringList longQuotes;         // delimit strings over several lines
  bool caseInsensitive = false;
};

namespace {

// Block states: 0 = plain, 1 = in a block comment, 2 + i = in longQuotes[i].
constexpr int kInComment = 1, kInLongString = 2;

QSet<QString> words(const char* list) {
  const QStringList split = QString::fromLatin1(list).split(QLatin1Char(' '), Qt::SkipEmptyParts);
  return {split.begin(), split.end()};
}

CodeLanguage cLike(const char* keywords, const char* types) {
  CodeLanguage language;
  language.keywords = words(keywords);
  language.types = words(types);
  language.lineComments = {QStringLiteral("//")};
  language.blockOpen = QStringLiteral("/*");
  language.blockClose = QStringLiteral("*/");
  language.quotes = QStringLiteral("\"'");
  return language;
}

CodeLanguage hashLike(const char* keywords, const char* types) {
  CodeLanguage language;
  language.keywords = words(keywords);
  language.types = words(types);
  language.lineComments = {QStringLiteral("#")};
  language.quotes = QStringLiteral("\"'");
  return language;
}

CodeLanguage python() {
  CodeLanguage language = hashLike(
      "and as assert async await break class continue def del elif else except finally for from "
      "global if import in is lambda nonlocal not or pass raise return try while with yield match "
      "case None True False self",
      "int float str bytes bool list dict set tuple object type range print len");
  language.longQuotes = {QStringLiteral("\"\"\""), QStringLiteral("'''")};
  return language;
}

CodeLanguage script() {
  CodeLanguage language = cLike(
      "async await break case catch class const continue debugger default delete do else enum "
      "export extends finally for from function get if implements import in instanceof interface "
      "let new of return set static super switch this throw try type typeof var void while yield "
      "null undefined true false",
      "any boolean number string object unknown never Array Map Set Promise Record");
  language.longQuotes = {QStringLiteral("`")};
  return language;
}

CodeLanguage sql() {
  CodeLanguage language;
  language.keywords = words(
      "select from where insert into values update set delete create table index view drop alter "
      "add join left right inner outer on group by order having limit offset union all distinct as "
      "and or not null is in like between exists case when then else end primary key foreign "
      "references default begin commit rollback with returning");
  language.types = words("int integer text varchar char real float double boolean date timestamp");
  language.lineComments = {QStringLiteral("--")};
  language.blockOpen = QStringLiteral("/*");
  language.blockClose = QStringLiteral("*/");
  language.quotes = QStringLiteral("'\"");
  language.caseInsensitive = true;
  return language;
}

CodeLanguage markup() {
  CodeLanguage language;
  language.blockOpen = QStringLiteral("<!--");
  language.blockClose = QStringLiteral("-->");
  language.quotes = QStringLiteral("\"'");
  return language;
}

const CodeLanguage* languageNamed(const QString& name) {
  static const QHash<QString, CodeLanguage> table = [] {
    QHash<QString, CodeLanguage> t;
    const auto add = [&t](std::initializer_list<const char*> names, const CodeLanguage& language) {
      for (const char* each : names) t.insert(QString::fromLatin1(each), language);
    };
    add({"c", "cpp", "c++", "cc", "h", "hpp", "cxx", "cuda"},
        cLike(
            "alignas alignof auto break case catch class concept const consteval constexpr "
            "constinit continue co_await co_return co_yield decltype default delete do else enum "
            "explicit export extern final for friend goto if inline mutable namespace new noexcept "
            "nullptr operator override private protected public requires return sizeof static "
            "static_assert struct switch template this throw true false try typedef typename union "
            "using virtual volatile while",
            "bool char char8_t char16_t char32_t double float int long short signed unsigned void "
            "size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t string "
            "vector "
            "map set optional unique_ptr shared_ptr"));
    add({"java", "kotlin", "kt", "scala", "cs", "csharp", "c#", "swift", "dart"},
        cLike(
            "abstract as async await break case catch class companion const continue data default "
            "do else enum extends final finally for fun func guard if implements import in "
            "instanceof interface internal is let namespace new null object open override package "
            "private protected public return sealed static struct super switch this throw throws "
            "true false try using val var void when where while yield nil self",
            "boolean bool byte char double float int long short String Int Double Bool List Map"));
    add({"rust", "rs"},
        cLike(
            "as async await break const continue crate dyn else enum extern false fn for if impl "
            "in "
            "let loop match mod move mut pub ref return self Self static struct super trait true "
            "type unsafe use where while",
            "bool char f32 f64 i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize str String Vec "
            "Option Result Box"));
    add({"go", "golang"},
        cLike(
            "break case chan const continue default defer else fallthrough for func go goto if "
            "import interface map package range return select struct switch type var nil true "
            "false",
            "bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune "
            "string uint uint8 uint16 uint32 uint64 uintptr any"));
    add({"javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs"}, script());
    add({"python", "py", "python3", "pycon"}, python());
    add({"bash", "sh", "shell", "zsh", "console"},
        hashLike("if then else elif fi for while until do done case esac in function return exit "
                 "export local readonly set unset shift trap source alias echo cd true false",
                 "sudo apt git grep sed awk cat ls mkdir rm cp mv pip python3 cmake make curl"));
    add({"ruby", "rb", "perl", "pl", "r", "julia"},
        hashLike(
            "begin class def do else elsif end ensure false for function if in module next nil "
            "not or and redo require rescue return self super then true undef unless until when "
            "while yield my our sub use let",
            ""));
    add({"yaml", "yml", "toml", "ini", "cmake", "dockerfile", "makefile", "make"},
        hashLike("true false null yes no on off if else endif foreach endforeach function "
                 "endfunction set FROM RUN COPY WORKDIR ENV EXPOSE CMD ENTRYPOINT",
                 ""));
    add({"json", "jsonc"}, cLike("true false null", ""));
    add({"css", "scss", "less"}, cLike("important media import", ""));
    add({"php"},
        cLike("abstract as break case catch class const continue default do echo else "
              "elseif extends final for foreach function if implements interface namespace "
              "new null private protected public return static switch this throw true false "
              "try use var while",
              "int string bool float array object"));
    add({"sql", "sqlite", "postgresql", "mysql"}, sql());
    add({"html", "xml", "svg", "vue"}, markup());
    return t;
  }();
  const auto it = table.constFind(name.toLower());
  return it == table.constEnd() ? nullptr : &*it;
}

bool isWordChar(QChar c) {
  return c.isLetterOrNumber() || c == u'_';
}

QTextCharFormat colored(const QColor& color) {
  QTextCharFormat format;
  format.setForeground(color);
  return format;
}

}  // namespace

CodeHighlighter::CodeHighlighter(QTextDocument* document, const QString& language)
    : QSyntaxHighlighter(document), m_language(languageNamed(language)) {}

CodeHighlighter::~CodeHighlighter() = default;

bool CodeHighlighter::knows(const QString& language) {
  return languageNamed(language) != nullptr;
}

void CodeHighlighter::highlightBlock(const QString& text) {
  setCurrentBlockState(0);
  if (m_language == nullptr) return;
  qsizetype at = continueMultiline(text, 0);
  while (at < text.size()) {
    const QStringView rest = QStringView(text).mid(at);
    const QChar c = text[at];
    bool comment = false;
    for (const QString& mark : m_language->lineComments) comment |= rest.startsWith(mark);
    if (comment) {
      setFormat(static_cast<int>(at), static_cast<int>(rest.size()),
                colored(Theme::current().syntaxComment));
      return;
    }
    const bool opensComment =
        !m_language->blockOpen.isEmpty() && rest.startsWith(m_language->blockOpen);
    bool opensLong = false;
    for (const QString& mark : m_language->longQuotes) opensLong |= rest.startsWith(mark);
    if (opensComment || opensLong) {
      at = continueMultiline(text, at);
    } else if (m_language->quotes.contains(c)) {
      at = highlightString(text, at);
    } else if (c.isDigit()) {
      at = highlightNumber(text, at);
    } else if (isWordChar(c)) {
      at = highlightWord(text, at);
    } else {
      ++at;
    }
  }
}

// Colours a comment or string that began on an earlier line, or begins at `at`; sets the block's
// state when it goes on. Returns where plain text begins again.
qsizetype CodeHighlighter::continueMultiline(const QString& text, qsizetype at) {
  const bool fromBefore = at == 0 && previousBlockState() >= kInComment;
  int state = fromBefore ? previousBlockState() : 0;
  qsizetype from = at;
  if (!fromBefore) {
    const QStringView rest = QStringView(text).mid(at);
    if (!m_language->blockOpen.isEmpty() && rest.startsWith(m_language->blockOpen)) {
      state = kInComment;
      from += m_language->blockOpen.size();
    }
    for (int i = 0; state == 0 && i < m_language->longQuotes.size(); ++i) {
      if (!rest.startsWith(m_language->longQuotes[i])) continue;
      state = kInLongString + i;
      from += m_language->longQuotes[i].size();
    }
  }
  if (state == 0) return at;
  const QString close = state == kInComment ? m_language->blockClose
                                            : m_language->longQuotes.value(state - kInLongString);
  const qsizetype end = close.isEmpty() ? -1 : text.indexOf(close, from);
  const qsizetype stop = end < 0 ? text.size() : end + close.size();
  if (end < 0) setCurrentBlockState(state);
  const Theme& theme = Theme::current();
  setFormat(static_cast<int>(at), static_cast<int>(stop - at),
            colored(state == kInComment ? theme.syntaxComment : theme.syntaxString));
  return stop;
}

qsizetype CodeHighlighter::highlightString(const QString& text, qsizetype at) {
  const QChar quote = text[at];
  qsizetype end = at + 1;
  while (end < text.size() && text[end] != quote) end += text[end] == u'\\' ? 2 : 1;
  end = std::min(end + 1, text.size());
  setFormat(static_cast<int>(at), static_cast<int>(end - at),
            colored(Theme::current().syntaxString));
  return end;
}

qsizetype CodeHighlighter::highlightNumber(const QString& text, qsizetype at) {
  qsizetype end = at;
  while (end < text.size() && (isWordChar(text[end]) || text[end] == u'.')) ++end;
  setFormat(static_cast<int>(at), static_cast<int>(end - at),
            colored(Theme::current().syntaxNumber));
  return end;
}

qsizetype CodeHighlighter::highlightWord(const QString& text, qsizetype at) {
  qsizetype end = at;
  while (end < text.size() && isWordChar(text[end])) ++end;
  QString word = text.mid(at, end - at);
  if (m_language->caseInsensitive) word = word.toLower();
  const Theme& theme = Theme::current();
  QTextCharFormat format;
  if (m_language->keywords.contains(word)) {
    format = colored(theme.syntaxKeyword);
  } else if (m_language->types.contains(word)) {
    format = colored(theme.syntaxType);
  } else if (end < text.size() && text[end] == u'(') {
    format = colored(theme.syntaxFunction);
  }
  if (!format.isEmpty()) setFormat(static_cast<int>(at), static_cast<int>(end - at), format);
  return end;
}

}  // namespace quire
