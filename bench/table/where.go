package table

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkWhere refuses a condition that would not stay inside the parentheses that are put
// around it, or that would lock rows. It reads quotes as MySQL does with an empty
// sql_mode, which is what the sessions of a reading have: a backslash escapes in ” and "",
// and no quote is doubled but by itself. Whether it is SQL at all is for MySQL to say.
func checkWhere(s string) error {
	if s == "" {
		return nil
	}
	if strings.TrimSpace(s) == "" {
		return fmt.Errorf("is blank: want a condition such as status = 'open', or leave it out")
	}
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return fmt.Errorf("is not valid UTF-8 text")
	}
	depth := 0
	var words []string // the words in a row, in upper case; a "" stands for anything else
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\'' || c == '"' || c == '`':
			n := quoted(s[i:])
			if n < 0 {
				return fmt.Errorf("has a %c without its closing one", c)
			}
			i += n
			words = append(words, "")
			continue
		case c == ';':
			return fmt.Errorf("has a semicolon outside quotes: want one condition")
		case c == '#', strings.HasPrefix(s[i:], "/*"), strings.HasPrefix(s[i:], "*/"), isDashComment(s[i:]):
			return fmt.Errorf("has a comment: leave it out")
		case c == '(':
			depth++
			words = append(words, "")
		case c == ')':
			if depth--; depth < 0 {
				return fmt.Errorf("has a closing parenthesis without an opening one")
			}
			words = append(words, "")
		default:
			if n := word(s[i:]); n > 0 {
				words = append(words, strings.ToUpper(s[i:i+n]))
				i += n
				continue
			}
			if r, size := utf8.DecodeRuneInString(s[i:]); !unicode.IsSpace(r) {
				words = append(words, "")
				i += size
				continue
			}
		}
		i++
	}
	if depth > 0 {
		return fmt.Errorf("has an opening parenthesis without a closing one")
	}
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case w == "FOR" && (next == "UPDATE" || next == "SHARE"), w == "LOCK" && next == "IN":
			return fmt.Errorf("has a locking read (%s %s): the table is only read", w, next)
		case w == "INTO":
			return fmt.Errorf("has INTO: the table is only read")
		}
	}
	return nil
}

// quoted returns the length of the quoted text that s starts with, or -1 if it
// does not end.
func quoted(s string) int {
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && q != '`':
			i++
		case s[i] == q:
			if i+1 < len(s) && s[i+1] == q {
				i++
				continue
			}
			return i + 1
		}
	}
	return -1
}

// isDashComment: two dashes begin a comment only before white space, a control
// character or the end; 1--1 is a sum.
func isDashComment(s string) bool {
	return strings.HasPrefix(s, "--") && (len(s) == 2 || s[2] <= ' ' || s[2] == 0x7f)
}

// word returns the length of the word that s starts with, or 0.
func word(s string) int {
	for i, r := range s {
		if r != '_' && r != '$' && r != '@' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(s)
}
