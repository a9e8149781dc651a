-- A database that adds operators, a cast and a function of names that the engine has too.
CREATE TYPE rank AS ENUM ('low', 'high');
CREATE FUNCTION mixed(a bigint, b text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$;
CREATE FUNCTION joined(a text, b text) RETURNS text LANGUAGE sql AS $$ SELECT 'x'::text $$;
CREATE FUNCTION ranks(a rank, b rank) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$;
CREATE FUNCTION rank_text(a rank) RETURNS text LANGUAGE sql AS $$ SELECT 'x'::text $$;
CREATE FUNCTION lower(a rank) RETURNS text LANGUAGE sql AS $$ SELECT 'x'::text $$;
CREATE OPERATOR = (LEFTARG = bigint, RIGHTARG = text, FUNCTION = mixed);
CREATE OPERATOR <> (LEFTARG = rank, RIGHTARG = rank, FUNCTION = ranks);
CREATE OPERATOR + (LEFTARG = text, RIGHTARG = text, FUNCTION = joined);
CREATE CAST (rank AS text) WITH FUNCTION rank_text(rank) AS IMPLICIT;
CREATE TABLE plain (id integer PRIMARY KEY, word text, note text);
CREATE TABLE ranked (id integer PRIMARY KEY, own rank, note text);
