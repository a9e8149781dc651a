SELECT 1, - - 1 AS "x
 2, password FROM users --" FROM orders